"""The OpenAPI document of FastAPI, with the errors of this server."""

from __future__ import annotations

import gzip
import json
import re
import threading
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from app.http.compression import accepts_gzip
from app.http.problems import MEDIA_TYPE, Problem

_REPLACED = ("HTTPValidationError", "ValidationError")


_making = threading.Lock()  # takes a second: made once, outside the event loop


def openapi_document(app: FastAPI) -> dict[str, Any]:
    with _making:
        return _openapi_document(app)


def add_openapi(app: FastAPI, path: str) -> None:
    """Serve the document, made once in a thread. FastAPI's own route makes it in the event loop, on each request."""
    sent: list[bytes] = []  # plain, and compressed

    async def openapi(request: Request) -> Response:
        if not sent:
            plain = json.dumps(await to_thread.run_sync(openapi_document, app)).encode()
            sent[:] = [plain, gzip.compress(plain)]
        headers = {"Vary": "Accept-Encoding"}
        if not accepts_gzip(request):
            return Response(sent[0], headers=headers, media_type="application/json")
        return Response(sent[1], headers={**headers, "Content-Encoding": "gzip"}, media_type="application/json")

    app.add_api_route(path, openapi, include_in_schema=False)
    app.router.routes.insert(0, app.router.routes.pop())  # our route must precede FastAPI's


def _openapi_document(app: FastAPI) -> dict[str, Any]:
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
        operation["security"].append({})  # loopback needs no key


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Methods of the path; of several matching templates, the one with most fixed characters counts."""
    templates = openapi_document(app)["paths"]
    matching = [name for name in templates if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name)), path)]
    if not matching:
        return []
    nearest = max(matching, key=lambda name: len(re.sub(r"\{\w+\}", "", name)))
    methods = {method.upper() for method in templates[nearest]}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
