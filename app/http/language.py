"""Answers in the caller's language: JSON is translated if ``Accept-Language`` prefers Chinese to English."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.language.choice import Language, of_header
from app.language.documents import translated

_TYPE = "application/json"  # a problem document is translated when it is created
_TAG = re.compile(r'(W/)?"([^"]*)-zh"')
LARGE_BYTES = 64 * 1024  # from this size on, outside the event loop


class Languages:
    """ASGI middleware. An answer in English passes unchanged, with a header that it depends on the language."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        language = of_header(Headers(scope=scope).get("accept-language", ""))
        if language == "en":
            await self.app(scope, receive, _saying_so(send))
        else:
            await self.app({**scope, "headers": _english_tags(scope)}, receive, _Translated(send, language).send)


def _saying_so(send: Send) -> Send:
    async def saying(message: Message) -> None:
        if message["type"] == "http.response.start" and (message["status"] == 304 or _is_json(Headers(raw=message["headers"]))):
            MutableHeaders(scope=message).add_vary_header("Accept-Language")
        await send(message)

    return saying


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0] == _TYPE


def _english_tags(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The request's headers as the application knows them: a tag of a translation is that of its original.

    A caller that has the original wants the translation all the same; what it must not overwrite is the same in all languages.
    """
    found = []
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            known = [f'{weak}"{tag}"' for weak, tag in _TAG.findall(value.decode("latin-1"))]
            if not known and value.strip() != b"*":
                continue
            value = ", ".join(known).encode("latin-1") or value
        elif name == b"if-match":
            value = _TAG.sub(r'\1"\2"', value.decode("latin-1")).encode("latin-1")
        found.append((name, value))
    return found


class _Translated:
    """Collects a JSON answer and sends its translation."""

    def __init__(self, send: Send, language: Language) -> None:
        self._send, self._language = send, language
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            if message["status"] == 304:
                _tag(MutableHeaders(scope=message))
                MutableHeaders(scope=message).add_vary_header("Accept-Language")
            elif _is_json(headers) and "content-encoding" not in headers:
                self._start = message
                return
            await self._send(message)
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        headers = MutableHeaders(scope=start)
        body = bytes(self._body)
        if body:
            is_large = len(body) > LARGE_BYTES
            body = (
                await to_thread.run_sync(_translation, body, self._language) if is_large else _translation(body, self._language)
            )
            headers["Content-Length"] = str(len(body))
        headers["Content-Language"] = self._language
        headers.add_vary_header("Accept-Language")
        _tag(headers)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _tag(headers: MutableHeaders) -> None:
    """The tag of a translation, which is another representation."""
    tag = headers.get("etag", "")
    if tag.endswith('"'):
        headers["ETag"] = f'{tag[:-1]}-zh"'


def _translation(body: bytes, language: Language) -> bytes:
    document: Any = json.loads(body)
    if isinstance(document, Mapping):
        document = translated(document, language)
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
