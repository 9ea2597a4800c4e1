"""Executors, which call functions elsewhere, and pieces of work for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, TimeoutError, wait
from typing import Any, Generic, Protocol, TypeVar

WAIT_S = 0.2  # seconds to wait for others between two heartbeats

Found = TypeVar("Found")


class WorkerLostError(Exception):
    """Every process that took the work has died, or no process is left."""


class Executor(Protocol):
    """Calls functions elsewhere. A result must depend on the arguments alone: a call whose process dies is repeated.

    The functions are functions of modules. Their arguments and results are pickled.
    """

    @property
    def room(self) -> int:
        """The number of calls that it takes now, enough to keep its processes busy; 0 without processes."""

    @property
    def grown_bytes(self) -> int:
        """Bytes that its processes on this machine have taken since they were ready for calls."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a function called. The result is ``WorkerLostError`` where no process is left."""

    def close(self) -> None:
        """End the processes and their calls."""


class Serial:
    """An executor that takes no calls."""

    room = 0
    grown_bytes = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return a future with ``WorkerLostError``: there is no process."""
        future: Future[Any] = Future()
        future.set_exception(WorkerLostError())
        return future

    def close(self) -> None:
        """Do nothing: there is no process to end."""


SERIAL = Serial()


class Piece(Generic[Found]):
    """One call. It is made elsewhere, or in this process by ``own`` where that is given."""

    def __init__(self, function: Callable[..., Found], *arguments: Any, own: Callable[[], Found] | None = None) -> None:
        self._function, self._arguments, self._own = function, arguments, own
        self._future: Future[Found] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the call has begun somewhere."""
        return self._future is not None

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self._future is not None and self._future.done()

    def give(self, executor: Executor) -> None:
        """Have the call made elsewhere."""
        self._future = executor.submit(self._function, *self._arguments)

    def here(self) -> Found:
        """The result, computed in this process."""
        found = self._function(*self._arguments) if self._own is None else self._own()
        self._future = Future()
        self._future.set_result(found)
        return found

    def waited(self, timeout_s: float = WAIT_S) -> bool:
        """Whether the result is there after a wait of at most so long."""
        assert self._future is not None
        wait([self._future], timeout=timeout_s)
        return self._future.done()

    def result(self) -> Found:
        """The result of a piece that is done. A call that no other process survived is made in this process."""
        assert self._future is not None
        try:
            return self._future.result(timeout=0)
        except (WorkerLostError, TimeoutError):
            return self.here()


def work_off(executor: Executor, pieces: Iterable[Piece[Any]], beat: Callable[[], None]) -> None:
    """Finish all pieces: elsewhere as far as there is room, else in this process. Calls ``beat`` after each."""
    unfinished = [piece for piece in pieces if not piece.is_done]  # an interrupted result has begun some
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
