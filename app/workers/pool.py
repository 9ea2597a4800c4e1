"""A pool of processes that answer calls: started on demand, restarted when one dies, and ended with their parent."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

import structlog

from app.workers.calls import Answer, Call, CallOptions, EstimateCall, main
from app.workers.forking import forking

GRACE_S = 2.0  # seconds for a running call when the pool ends
TRIES = 2  # tries of a call whose process died, perhaps because of other calls
WORTH_ENDING_S = 3.0  # a call that nobody waits for is ended after this time: before, a new process would cost more
_LOOK_S = 0.25  # between two looks whether somebody still waits

log = structlog.get_logger()


class ProcessDiedError(Exception):
    """The process died each time that the call was tried."""


class PoolFullError(Exception):
    """The queue of calls is full."""


@dataclass(eq=False)
class _Task:
    call: Call | EstimateCall
    owner: str | None
    future: Future[Answer] = field(default_factory=Future)
    tries: int = 0
    is_abandoned: bool = False


class Pool:
    """``num_processes`` that take calls in turns by owner, up to ``at_once`` together. If ``is_ready`` they start before a call.

    The next call is one of the owner with the fewest running calls; of several, of the one that had its turn the longest ago.
    """

    def __init__(
        self,
        name: str,
        options: CallOptions,
        *,
        num_processes: int,
        at_once: int = 1,
        max_waiting: int,
        is_ready: bool = False,
    ) -> None:
        self.name, self.options, self.is_ready = name, options, is_ready
        self._at_once, self._max_waiting = at_once, max_waiting
        self._again: deque[_Task] = deque()  # calls whose process died; first in turn
        self._waiting: dict[str | None, deque[_Task]] = {}  # by owner, in order of their turns
        self._running: Counter[str | None] = Counter()
        self._tasks: dict[Future[Answer], _Task] = {}  # waiting and running
        self._changed = threading.Condition()
        self._is_ending = False
        self.num_restarts = 0
        self._slots = [_Slot(self, number) for number in range(num_processes)]
        for slot in self._slots:
            slot.start()

    @property
    def pids(self) -> list[int]:
        """Ids of the living processes."""
        return [slot.process.pid for slot in self._slots if slot.process is not None and slot.process.pid is not None]

    @property
    def num_waiting(self) -> int:
        with self._changed:
            return self._num_waiting

    @property
    def _num_waiting(self) -> int:
        return len(self._again) + sum(map(len, self._waiting.values()))

    def submit(self, call: Call | EstimateCall, owner: str | None = None) -> Future[Answer]:
        """Submit a call and return its future; ``PoolFullError`` if too many calls wait, or half of them are the owner's.

        Calls without an owner, on a server without keys, may fill the queue.
        """
        task = _Task(call, owner)
        with self._changed:
            num_free, waiting = self._max_waiting - self._num_waiting, self._waiting.setdefault(owner, deque())
            if self._is_ending or num_free <= 0 or (owner is not None and len(waiting) >= num_free):
                self._forget_empty(owner)
                raise PoolFullError(self.name)
            waiting.append(task)
            self._tasks[task.future] = task
            self._changed.notify()
        return task.future

    def abandon(self, future: Future[Answer]) -> None:
        """Nobody waits for the answer any more: a waiting call is dropped, and the process of a running one is ended.

        Calls that are priced together are ended only if nobody waits for any of them.
        """
        with self._changed:
            task = self._tasks.get(future)
            if task is None:
                return
            task.is_abandoned = True
            waiting = self._again if task.tries else self._waiting.get(task.owner, deque())
            if task in waiting:
                waiting.remove(task)
                del self._tasks[future]
                self._forget_empty(task.owner)
                future.cancel()

    def _forget_empty(self, owner: str | None) -> None:
        if owner in self._waiting and not self._waiting[owner]:
            del self._waiting[owner]

    def stop(self) -> None:
        """End the processes; waiting calls are cancelled."""
        with self._changed:
            self._is_ending = True
            for task in [*self._again, *(each for tasks in self._waiting.values() for each in tasks)]:
                task.future.cancel()
                self._tasks.pop(task.future, None)
            self._again.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for slot in self._slots:
            slot.join(GRACE_S)
            slot.kill()
            slot.join()

    def take(self) -> list[_Task]:
        """Take the next calls, as many as may go together; empty when the pool ends."""
        with self._changed:
            while not self._num_waiting and not self._is_ending:
                self._changed.wait()
            found: list[_Task] = []
            if self._again:  # a call that may have killed a process runs alone
                found.append(self._again.popleft())
            while self._waiting and len(found) < self._at_once and not (found and found[0].tries):
                task = self._next()
                if task.future.set_running_or_notify_cancel():
                    self._running[task.owner] += 1
                    found.append(task)
                else:
                    del self._tasks[task.future]
            self._running.update(task.owner for task in found if task.tries)
            return found

    def _next(self) -> _Task:
        """The first call of the owner whose turn it is; the owner becomes the last in turn."""
        owner = min(self._waiting, key=lambda each: self._running[each])  # of equal ones the first
        tasks = self._waiting.pop(owner)
        task = tasks.popleft()
        if tasks:
            self._waiting[owner] = tasks
        return task

    def done(self, tasks: Sequence[_Task]) -> None:
        """Note that these calls run no more."""
        with self._changed:
            for task in tasks:
                self._running[task.owner] -= 1
                if not self._running[task.owner]:
                    del self._running[task.owner]
                self._tasks.pop(task.future, None)

    def give_back(self, tasks: Sequence[_Task]) -> None:
        """Return calls whose process died; each that somebody waits for is tried once more, alone."""
        self.done(tasks)
        with self._changed:
            for task in reversed(tasks):
                task.tries += 1
                if task.tries >= TRIES or self._is_ending or task.is_abandoned:
                    task.future.set_exception(ProcessDiedError(self.name))
                else:
                    self._again.appendleft(task)
                    self._tasks[task.future] = task
            self._changed.notify_all()

    @property
    def is_ending(self) -> bool:
        return self._is_ending


class _Slot(threading.Thread):
    """A process, and the thread that starts and outlives it, because Linux ends a child with the thread that started it."""

    def __init__(self, pool: Pool, number: int) -> None:
        super().__init__(daemon=True, name=f"{pool.name} {number}")
        self._pool = pool
        self._connection: Connection | None = None
        self.process: ForkServerProcess | None = None

    def run(self) -> None:
        if self._pool.is_ready:
            with suppress(OSError):  # told at the first call
                self._start()
        while not self._pool.is_ending:
            tasks = self._pool.take()
            if tasks:
                self._answer(tasks)
        self._end()

    def kill(self) -> None:
        process = self.process
        if process is not None:
            with suppress(ValueError):  # the pool was closed meanwhile
                process.kill()

    def _answer(self, tasks: list[_Task]) -> None:
        try:
            connection = self._connection or self._start()
            if self._pool.is_ending:  # it may have asked to end the process before there was one
                raise EOFError
            connection.send([task.call for task in tasks])
            if not self._is_waited_for(tasks, connection):
                self.kill()
                self._end()
                self._pool.give_back(tasks)
                return
            answers: list[Answer] = connection.recv()
        except (EOFError, OSError):
            if not self._pool.is_ending:
                self._pool.num_restarts += 1
                log.warning("a process died and is started again", pool=self._pool.name, calls=len(tasks))
            self._end()
            self._pool.give_back(tasks)
        else:
            self._pool.done(tasks)
            for task, answer in zip(tasks, answers, strict=True):
                task.future.set_result(answer)

    @staticmethod
    def _is_waited_for(tasks: list[_Task], connection: Connection) -> bool:
        """Wait for the answers; False if nobody waits for any, and they take long."""
        begun_s = time.monotonic()
        while not connection.poll(_LOOK_S):
            if all(task.is_abandoned for task in tasks) and time.monotonic() - begun_s > WORTH_ENDING_S:
                return False
        return True

    def _start(self) -> Connection:
        context = forking()
        ours, theirs = context.Pipe()
        process = context.Process(target=main, args=(self._pool.options, theirs), daemon=True, name=f"meshplan {self.name}")
        process.start()
        self.process = process
        theirs.close()  # so that its end is noticed here
        self._connection = ours
        return ours

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self.process is not None:
            self.process.join(GRACE_S)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()
            process, self.process = self.process, None
            process.close()
        self._connection = None
