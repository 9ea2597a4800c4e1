"""HEAD for every GET: the same status and headers, without a body."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """ASGI middleware. A stream ends when its headers are sent, as if its reader had left."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        has_begun = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                has_begun.set()

        async def receive_end() -> Message:
            await has_begun.wait()
            return {"type": "http.disconnect"}

        asked = {**scope, "method": "GET"}
        try:
            await self.app(asked, receive_end, send_head)
        finally:
            scope.update({name: value for name, value in asked.items() if name != "method"})  # route and caller, for the log
