"""Answers in the language that the caller reads: Chinese where ``Accept-Language`` wants it more than English.

Inside the application JSON may carry the parts of its sentences behind their English text (``documents.said``). Here the parts
are dropped for readers of English, and used for the others.
"""

from __future__ import annotations

import json
import re
from typing import Any

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.language.choice import Language, of_header, said
from documents.said import WITH_PARTS, without_parts
from documents.sentences import unpacked

_TYPE = "application/json"  # a problem document is translated when it is created
_TAG = re.compile(r'(W/)?"([^"]*)-zh"')
LARGE_BYTES = 64 * 1024  # size from which answers are translated outside the event loop


class Languages:
    """ASGI middleware. Every answer in JSON says that it depends on the language."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        language = of_header(Headers(scope=scope).get("accept-language", ""))
        if language != "en":
            scope = {**scope, "headers": _english_tags(scope)}
        token = WITH_PARTS.set(language != "en")
        try:
            await self.app(scope, receive, _Told(send, language).send)
        finally:
            WITH_PARTS.reset(token)


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0] == _TYPE


def _english_tags(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Headers of the request with the ETags of the English original in place of the translation's.

    ``If-None-Match`` keeps only tags of translations, because a caller with the original still needs the translation.
    ``If-Match`` keeps all tags, because all languages have one version.
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


class _Told:
    """Collects an answer in JSON until it is complete, and sends its translation."""

    def __init__(self, send: Send, language: Language) -> None:
        self._send, self._language = send, language
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if message["status"] == 304:
                self._tag(headers)
                headers.add_vary_header("Accept-Language")
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
            body = await self._told(body)
            headers["Content-Length"] = str(len(body))
        if self._language != "en":
            headers["Content-Language"] = self._language
        headers.add_vary_header("Accept-Language")
        self._tag(headers)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def _told(self, body: bytes) -> bytes:
        if self._language == "en":
            return without_parts(body)
        return (
            await to_thread.run_sync(_translation, body, self._language)
            if len(body) > LARGE_BYTES
            else _translation(body, self._language)
        )

    def _tag(self, headers: MutableHeaders) -> None:
        """A translation is another representation, which has a tag of its own."""
        tag = headers.get("etag", "")
        if self._language != "en" and tag.endswith('"'):
            headers["ETag"] = f'{tag[:-1]}-{self._language}"'


def _translation(body: bytes, language: Language) -> bytes:
    document = _in_language(json.loads(body), language)
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _in_language(value: Any, language: Language) -> Any:
    if isinstance(value, str):
        return said(unpacked(value), language)
    if isinstance(value, dict):
        return {name: _in_language(each, language) for name, each in value.items()}
    if isinstance(value, list):
        return [_in_language(each, language) for each in value]
    return value
