"""Places for requests that hold something for long, shared among owners."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class NoPlaceError(Exception):
    """All places are taken, or the owner holds as many as are left for others."""


class Places:
    """``most`` places. An owner may take one while it holds fewer than are free, so that one alone gets half of them.

    Callers without an owner, on a server without keys, may take all. For use in the event loop only.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: Counter[str | None] = Counter()

    @property
    def num_free(self) -> int:
        return self.most - self._taken.total()

    @contextmanager
    def taken(self, owner: str | None) -> Iterator[None]:
        """A place inside the block; ``NoPlaceError`` if there is none for this owner."""
        if not self.num_free or (owner is not None and self._taken[owner] >= self.num_free):
            raise NoPlaceError
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]


class Turns:
    """``most`` places that owners take in turns; ``waiting`` callers may wait for one. For use in the event loop only.

    The next place goes to the waiting owner that holds the fewest; of several, to the one that had its turn the longest ago.
    An owner leaves one of several places to others, and half of the queue.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self.most, self.waiting = most, waiting
        self._held: Counter[str | None] = Counter()
        self._queues: dict[str | None, deque[asyncio.Future[None]]] = {}  # in order of their turns

    @property
    def num_waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def taken(self, owner: str | None) -> AsyncIterator[None]:
        """A place inside the block, after a wait if need be; ``NoPlaceError`` if no more may wait for this owner."""
        if self._may(owner) and owner not in self._queues:
            self._held[owner] += 1
        else:
            await self._turn(owner)
        try:
            yield
        finally:
            self._give_back(owner)

    def _give_back(self, owner: str | None) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._grant()

    def _may(self, owner: str | None) -> bool:
        share = self.most if owner is None else max(1, self.most - 1)
        return self._held.total() < self.most and self._held[owner] < share

    async def _turn(self, owner: str | None) -> None:
        num_free = self.waiting - self.num_waiting
        if num_free <= 0 or (owner is not None and len(self._queues.get(owner, ())) >= num_free):
            raise NoPlaceError
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place came at the same moment
                self._give_back(owner)
            elif owner in self._queues and turn in self._queues[owner]:
                self._queues[owner].remove(turn)
                if not self._queues[owner]:
                    del self._queues[owner]
            raise

    def _grant(self) -> None:
        while waiting := [owner for owner in self._queues if self._may(owner)]:
            owner = min(waiting, key=lambda each: self._held[each])
            queue = self._queues.pop(owner)
            turn = queue.popleft()
            if queue:
                self._queues[owner] = queue
            if not turn.done():
                self._held[owner] += 1
                turn.set_result(None)
