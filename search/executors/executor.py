"""What takes work away from this process, and work that may have been taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, TimeoutError, wait
from typing import Any, Generic, Protocol, TypeVar

WAIT_S = 0.2  # for what others work on, between two signs of life

Found = TypeVar("Found")


class WorkerLostError(Exception):
    """Every process that took a piece of work died of it, or there is none left."""


class Executor(Protocol):
    """Calls functions elsewhere. What they answer must depend on their arguments alone: a call whose process dies is made again.

    Functions are those of modules, and what they take and return is pickled.
    """

    @property
    def room(self) -> int:
        """Calls that it would take now, so many that its processes do not wait for the next; 0 while there are none."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a function called; ``WorkerLostError`` is its result where nothing is left to call it."""

    def close(self) -> None:
        """End the processes, and what they work on."""


class Serial:
    """Takes nothing."""

    room = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Nobody is there to call it."""
        future: Future[Any] = Future()
        future.set_exception(WorkerLostError())
        return future

    def close(self) -> None:
        """Nothing is open."""


SERIAL = Serial()


class Piece(Generic[Found]):
    """One call, to be made elsewhere, or in this process, by ``own`` where it has a way of its own."""

    def __init__(self, function: Callable[..., Found], *arguments: Any, own: Callable[[], Found] | None = None) -> None:
        self._function, self._arguments, self._own = function, arguments, own
        self._future: Future[Found] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody works on it, or has."""
        return self._future is not None

    @property
    def is_done(self) -> bool:
        """Whether its result is there."""
        return self._future is not None and self._future.done()

    def give(self, executor: Executor) -> None:
        """Have it called elsewhere."""
        self._future = executor.submit(self._function, *self._arguments)

    def here(self) -> Found:
        """The result, found in this process."""
        found = self._function(*self._arguments) if self._own is None else self._own()
        self._future = Future()
        self._future.set_result(found)
        return found

    def waited(self, timeout_s: float = WAIT_S) -> bool:
        """Whether its result is there after so long at most."""
        assert self._future is not None
        wait([self._future], timeout=timeout_s)
        return self._future.done()

    def result(self) -> Found:
        """The result of a piece that is done; one that no other process survived is worked on here."""
        assert self._future is not None
        try:
            return self._future.result(timeout=0)
        except (WorkerLostError, TimeoutError):
            return self.here()


def work_off(executor: Executor, pieces: Iterable[Piece[Any]], beat: Callable[[], None]) -> None:
    """Have all pieces done: by others as far as they have room, by this process else; ``beat`` after each that was not."""
    unfinished = [piece for piece in pieces if not piece.is_done]  # an answer that was interrupted has begun some
    waiting, given = (deque(piece for piece in unfinished if piece.is_taken is taken) for taken in (False, True))
    while waiting or given:
        while executor.room and waiting:
            given.append(waiting.popleft())
            given[-1].give(executor)
        if waiting:
            waiting.popleft().here()
        elif given[0].waited():
            given.popleft()
        beat()
