"""The OpenAPI document: FastAPI's, with the errors that this server really answers."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.http.problems import MEDIA_TYPE, Problem

_REPLACED = ("HTTPValidationError", "ValidationError")


def openapi_document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        for name in _REPLACED:
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        for operations in document["paths"].values():
            for operation in operations.values():
                _correct(operation)
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        app.openapi_schema = document
    return app.openapi_schema


def _correct(operation: dict[str, Any]) -> None:
    refused = operation["responses"].get("422")
    if refused is not None and "HTTPValidationError" in json.dumps(refused):
        reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
        refused.update({"description": "The request cannot be used", "content": {MEDIA_TYPE: reference}})
    operation["responses"] = dict(sorted(operation["responses"].items()))
    if "security" in operation:
        operation["security"].append({})  # on loopback nobody needs a key


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The methods that the path takes; of templates that match, the one with most fixed characters counts."""
    templates = openapi_document(app)["paths"]
    matching = [name for name in templates if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name)), path)]
    if not matching:
        return []
    nearest = max(matching, key=lambda name: len(re.sub(r"\{\w+\}", "", name)))
    return sorted(method.upper() for method in templates[nearest])
