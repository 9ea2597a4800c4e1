"""The description of the REST API, made once a process: it takes a second."""

from functools import cache
from typing import Any

from app.http.openapi import openapi_document
from app.server.application import create_app
from app.storage.session import Database


@cache
def openapi() -> dict[str, Any]:
    """The document of a server whose database is never opened."""
    return openapi_document(create_app(Database("sqlite:///never-opened.db")))
