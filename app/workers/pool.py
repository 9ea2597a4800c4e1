"""A pool of processes that answer calls: started on demand, restarted when one dies, and ended with their parent."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import structlog

from app.workers.calls import Answer, Call, CallOptions, EstimateCall, main

GRACE_S = 2.0  # seconds for a running call when the pool ends
TRIES = 2  # tries of a call whose process died, perhaps because of other calls

log = structlog.get_logger()


class ProcessDiedError(Exception):
    """The process died each time that the call was tried."""


class PoolFullError(Exception):
    """The queue of calls is full."""


@dataclass
class _Task:
    call: Call | EstimateCall
    future: Future[Answer] = field(default_factory=Future)
    tries: int = 0


class Pool:
    """``num_processes`` that take calls in order of arrival, up to ``at_once`` together."""

    def __init__(self, name: str, options: CallOptions, *, num_processes: int, at_once: int = 1, max_waiting: int) -> None:
        self.name, self.options = name, options
        self._at_once, self._max_waiting = at_once, max_waiting
        self._waiting: deque[_Task] = deque()
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
        return len(self._waiting)

    def submit(self, call: Call | EstimateCall) -> Future[Answer]:
        """Submit a call and return its future; ``PoolFullError`` if too many calls wait."""
        task = _Task(call)
        with self._changed:
            if len(self._waiting) >= self._max_waiting or self._is_ending:
                raise PoolFullError(self.name)
            self._waiting.append(task)
            self._changed.notify()
        return task.future

    def stop(self) -> None:
        """End the processes; waiting calls are cancelled."""
        with self._changed:
            self._is_ending = True
            while self._waiting:
                self._waiting.popleft().future.cancel()
            self._changed.notify_all()
        for slot in self._slots:
            slot.join(GRACE_S)
            slot.kill()
            slot.join()

    def take(self) -> list[_Task]:
        """Take the next calls, as many as may go together; empty when the pool ends."""
        with self._changed:
            while not self._waiting and not self._is_ending:
                self._changed.wait()
            found: list[_Task] = []
            while self._waiting and len(found) < self._at_once:
                if found and self._waiting[0].tries:  # a call that may have killed a process runs alone
                    break
                task = self._waiting.popleft()
                if task.tries or task.future.set_running_or_notify_cancel():
                    found.append(task)
                if task.tries:
                    break
            return found

    def give_back(self, tasks: Sequence[_Task]) -> None:
        """Return calls whose process died; each is tried once more, alone."""
        with self._changed:
            for task in reversed(tasks):
                task.tries += 1
                if task.tries >= TRIES or self._is_ending:
                    task.future.set_exception(ProcessDiedError(self.name))
                else:
                    self._waiting.appendleft(task)
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
        self.process: SpawnProcess | None = None

    def run(self) -> None:
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
            connection.send([task.call for task in tasks])
            answers: list[Answer] = connection.recv()
        except (EOFError, OSError):
            if not self._pool.is_ending:
                self._pool.num_restarts += 1
                log.warning("a process died and is started again", pool=self._pool.name, calls=len(tasks))
            self._end()
            self._pool.give_back(tasks)
        else:
            for task, answer in zip(tasks, answers, strict=True):
                task.future.set_result(answer)

    def _start(self) -> Connection:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(
            target=main, args=(self._pool.options, theirs, os.getpid()), daemon=True, name=f"meshplan {self.name}"
        )
        self.process.start()
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
