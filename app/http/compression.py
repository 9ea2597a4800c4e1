"""Compression for browsers: lists of plans shrink to a sixth, the dashboard's scripts to a third."""

from __future__ import annotations

from fastapi import Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

# Above this level, time grows faster than bytes shrink.
_LEVEL = 6


def accepts_gzip(request: Request) -> bool:
    """Whether the answer may be compressed, as the middleware sees it."""
    return "gzip" in request.headers.get("accept-encoding", "")


class Compression:
    """ASGI middleware: compresses answers to GET if the caller accepts gzip, except event streams.

    Answers to POST are not compressed. Most of their callers are programs on the same machine, where it takes longer to compress
    ten thousand estimates than to send them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._compressed = GZipMiddleware(app, compresslevel=_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        await (self._compressed if is_read else self.app)(scope, receive, send)
