"""JSON bodies: read strictly, written as documents are everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from unicodedata import category

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from app.http.problems import ServiceError, from_input_error
from app.http.security import authorize
from app.text.documents import Document, json_bytes
from documents.errors import InputError, show
from documents.reading import Limits, parse_document

# Its bytes are counted as they come in; a part that is nested too deeply is refused where it is read, by its name.
_LIMITS = Limits(num_bytes=sys.maxsize, depth=512)


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            text = (await self.body()).decode("utf-8")
        except UnicodeDecodeError:
            raise ServiceError("invalid-input", "body: not text in UTF-8.", pointer="#") from None
        try:
            document = parse_document(text, "body", is_json=True, limits=_LIMITS)
            if "\\u" in text:  # the only way for such characters into JSON in UTF-8
                _refuse_unprintable(document)
        except InputError as error:
            raise from_input_error(error) from None
        return document


def _refuse_unprintable(value: object) -> None:
    """Control characters but ends of lines, and lone surrogates, which neither every database nor every reader takes."""
    if isinstance(value, str) and any(category(letter) in ("Cc", "Cs") and letter not in "\t\r\n" for letter in value):
        raise InputError(f"body: {show(value)} holds a control character or half a character; leave it out.")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_unprintable(key)
            _refuse_unprintable(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_unprintable(item)


def sent(document: Document, status_code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The document as an answer, where more is to be said of it than its type."""
    return Response(json_bytes(document), status_code, headers, "application/json")


class StrictRoute(APIRoute):
    """A route whose body is one JSON object without duplicate keys, sent as JSON.

    Other content types are refused, which also keeps a foreign web page from posting to a server on this machine: a
    browser asks before it sends JSON to another origin. Its answer is written as documents are everywhere: without what
    was not given.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{**options, "response_model_exclude_unset": True})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            if takes_body:
                await run_in_threadpool(authorize, request)  # before a stranger's body is read
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json" and not kind.endswith("+json"):
                    raise ServiceError("not-json", f"The body's Content-Type is {show(kind)}.")
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict
