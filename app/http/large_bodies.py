"""Large bodies are handled one after the other: several at once could fill the memory of a small machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.types import Scope

from app.http.places import NoPlaceError, Turns
from app.http.problems import ServiceError
from documents.sentences import Sentence

LARGE_BYTES = 256 * 1024
READ_AT_ONCE = 3  # while one is answered, others arrive
WAITING = 16
_RETRY_AFTER_S = 10

Result = TypeVar("Result")


def announced_bytes(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def has_unknown_length(scope: Scope) -> bool:
    return "transfer-encoding" in Headers(scope=scope)


class LargeBodies:
    """The large bodies of one server, in turns by owner. A waiting body is not read from its caller."""

    def __init__(self) -> None:
        self._reading = Turns(READ_AT_ONCE, WAITING)
        self._answering = Turns(1, READ_AT_ONCE)
        self._parsing = CapacityLimiter(1)

    @property
    def num_waiting(self) -> int:
        return self._reading.num_waiting

    @asynccontextmanager
    async def reading(self, owner: str | None) -> AsyncIterator[None]:
        """Hold this while the body or its content is in memory; ``ServiceError`` if too many wait."""
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self._reading.taken(owner))
            except NoPlaceError:
                raise ServiceError(
                    "unavailable",
                    Sentence("{} large requests wait already, or most of them are yours.", WAITING),
                    hint=Sentence("Repeat it in a few seconds, or send at most {} KiB at a time.", LARGE_BYTES // 1024),
                    headers={"Retry-After": str(_RETRY_AFTER_S)},
                ) from None
            yield

    @asynccontextmanager
    async def answering(self, owner: str | None) -> AsyncIterator[None]:
        """Hold this while the body is parsed and answered."""
        async with self._answering.taken(owner):
            yield

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Run outside the event loop, and not in the threads that answer requests."""
        return await to_thread.run_sync(call, limiter=self._parsing)
