"""JSON bodies: read strictly, written in the form of all documents."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, get_type_hints
from unicodedata import category

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

from app.http.large_bodies import LARGE_BYTES, announced_bytes, has_unknown_length
from app.http.problems import ServiceError, from_input_error
from app.http.security import authorized
from app.http.state import state_of
from app.text.json_documents import DescribedBy, Document, json_bytes
from documents.errors import InputError, show
from documents.reading import Limits, parse_document
from documents.sentences import Sentence

_JSON_TYPE = re.compile(r"application/([!#$%&'*+.^_`|~0-9a-z-]+\+)?json")  # RFC 6838 names, RFC 6839 suffix
_MAX_VALUES = 1_000_000
_MAPPING_COUNTS, _LIST_COUNTS = 4, 2  # bytes of memory that the smallest value takes


class _StrictRequest(Request):
    entries: Mapping[str, int]
    is_whole = False

    async def start(self) -> None:
        """Read as much of the body as is not large; ``is_whole`` says whether that was all of it."""
        self._pieces: list[bytes] = []
        self._stream = self.stream()
        size = 0
        async for piece in self._stream:
            self._pieces.append(piece)
            size += len(piece)
            if size > LARGE_BYTES:
                return
        self._body, self.is_whole = b"".join(self._pieces), True

    async def finish(self) -> None:
        """Read the rest of a body that was started."""
        async for piece in self._stream:
            self._pieces.append(piece)
        self._body, self.is_whole = b"".join(self._pieces), True
        self._pieces.clear()

    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= LARGE_BYTES:
            return _parsed(body, self.entries)
        return await state_of(self).large_bodies.in_thread(lambda: _parsed(body, self.entries))


def _parsed(body: bytes, entries: Mapping[str, int]) -> dict[str, Any]:
    """The mapping in a body; ``ServiceError`` if it has none, or is too large."""
    # Counted before parsing, also inside texts, so the count can only be too high.
    values = body.count(b",") + _MAPPING_COUNTS * body.count(b"{") + _LIST_COUNTS * body.count(b"[")
    if values > _MAX_VALUES:
        hint = Sentence("Send fewer values at a time.")
        raise ServiceError("too-large", Sentence("The body holds more than {:,} values.", _MAX_VALUES), hint=hint, pointer="#")
    limits = Limits(num_bytes=sys.maxsize, depth=512, entries=entries)  # bytes are counted as they arrive
    try:
        text = body.decode("utf-8")
        document = parse_document(text, "body", is_json=True, limits=limits)
        if "\\u" in text:  # the only form of such characters in JSON in UTF-8
            _refuse_unprintable(document)
    except UnicodeDecodeError:
        raise ServiceError("invalid-input", Sentence("body: not text in UTF-8."), pointer="#") from None
    except InputError as error:
        raise from_input_error(error) from None
    return document


def _refuse_unprintable(value: object) -> None:
    """Refuse control characters except line ends, and lone surrogates, which some databases and readers refuse."""
    if isinstance(value, str) and any(category(letter) in ("Cc", "Cs") and letter not in "\t\r\n" for letter in value):
        raise InputError(Sentence("body: {} holds a control character or half a character; leave it out.", show(value)))
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_unprintable(key)
            _refuse_unprintable(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_unprintable(item)


def _as_json(scope: Scope) -> Scope:
    """The scope with the one media type that the framework parses under every reading of the header."""
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    scope["headers"] = [*others, (b"content-type", b"application/json")]
    return scope


def sent(document: Document, status_code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The document as a response with its own status or headers."""
    return Response(json_bytes(document), status_code, headers, "application/json")


def as_json(content: bytes) -> Response:
    """A response from JSON text."""
    return Response(content, media_type="application/json")


class StrictRoute(APIRoute):
    """A route whose body is one JSON object without duplicate keys, sent as JSON.

    Other content types are refused. This also keeps a foreign web page from posting to a server on this machine, because a
    browser sends a preflight request before it sends JSON to another origin. The answer has the form of all documents: fields
    that were not given are left out.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{**options, "response_model_exclude_unset": True})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def strict(request: Request) -> Response:
            owner = (await authorized(request)).owner  # first, so that the body of an unknown caller is not read
            kinds = [given.partition(";")[0].strip().lower() for given in request.headers.getlist("content-type")]
            if len(kinds) != 1 or not _JSON_TYPE.fullmatch(kinds[0]):
                raise ServiceError("not-json", Sentence("The body's Content-Type is {}.", show(", ".join(kinds))))
            encoding = request.headers.get("content-encoding", "identity").strip().lower()
            if encoding not in ("identity", ""):
                hint = Sentence("Send the body as it is, without Content-Encoding.")
                raise ServiceError("not-json", Sentence("The body's Content-Encoding is {}.", show(encoding)), hint=hint)
            body = _StrictRequest(_as_json(request.scope), request.receive)
            body.entries = self._entries
            turns, is_announced = state_of(request).large_bodies, announced_bytes(request.scope) > LARGE_BYTES
            if not is_announced and not has_unknown_length(request.scope):
                return await handler(body)
            if not is_announced:  # the sender of a few bytes must not hold the place of a large body
                await body.start()
                if body.is_whole:
                    return await handler(body)
            async with turns.reading(owner):
                await (body.body() if is_announced else body.finish())
                async with turns.answering(owner):
                    return await handler(body)

        return strict

    @cached_property
    def _entries(self) -> dict[str, int]:
        """Largest number of entries of each top-level list, from the schema of the body."""
        described = [
            mark.kind
            for hint in get_type_hints(self.endpoint, include_extras=True).values()
            for mark in getattr(hint, "__metadata__", ())
            if isinstance(mark, DescribedBy)
        ]
        found = {}
        for kind in described:
            for name, schema in kind.model_json_schema()["properties"].items():
                lists = [option for option in schema.get("anyOf", [schema]) if "maxItems" in option]
                if lists:
                    found[name] = max(option["maxItems"] for option in lists)
        return found
