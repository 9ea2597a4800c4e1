"""Processes of this machine as an executor. They start when there is work, restart when one dies, and end with this one."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from search.executors.child_process import ERROR, READY
from search.executors.executor import WorkerLostError
from search.memory_use import resident_bytes_of

TRIES = 3  # attempts of a call, each in a process that died
AHEAD = 1  # calls that are queued for each process

# The process does not import the caller's script, which may not expect it.
_BOOT = "import sys; sys.path[:] = {path!r}; from search.executors.child_process import main; main({handle}, {collect_every})"
_SHARED_CORES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # one thread each: the processes share the cores


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any]
    lost: int = 0


class Processes:
    """``number`` processes, including this one, which runs the calls that the others have no room for.

    They start at the first read of ``room`` after ``begin`` returns true. Until they are ready there is no room, so a short
    search does not wait for them.
    """

    def __init__(self, number: int, begin: Callable[[], bool] = lambda: True) -> None:
        self._number, self._begin = number - 1, begin
        self._calls: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._slots: list[_Slot] = []
        self.is_ending = False

    @property
    def pids(self) -> list[int]:
        """The other processes that are alive."""
        return [slot.process.pid for slot in self._slots if slot.process is not None and slot.process.poll() is None]

    @property
    def room(self) -> int:
        """The number of calls that it takes now."""
        if not self._slots and self._number and self._begin():
            self._slots = [_Slot(self, place) for place in range(self._number)]
            for slot in self._slots:
                slot.start()
        ready = sum(slot.is_ready for slot in self._slots)
        busy = sum(slot.is_busy for slot in self._slots)
        return max(0, (1 + AHEAD) * ready - busy - len(self._calls))

    @property
    def grown_bytes(self) -> int:
        """Bytes that the other processes have taken since they were ready."""
        return sum(slot.grown_bytes for slot in self._slots)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have the next free process call a function."""
        call = _Call(function, arguments, Future())
        with self._changed:
            if self.is_ending or all(slot.has_failed for slot in self._slots):
                call.future.set_exception(WorkerLostError())
            else:
                self._calls.append(call)
                self._changed.notify()
        return call.future

    def close(self) -> None:
        """End the processes; their calls are lost."""
        with self._changed:
            self.is_ending = True
            self._lose_all()
            self._changed.notify_all()
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            slot.join()

    def take(self) -> _Call | None:
        """The next call; ``None`` at the end."""
        with self._changed:
            while not self._calls and not self.is_ending:
                self._changed.wait()
            return None if self.is_ending else self._calls.popleft()

    def give_back(self, call: _Call) -> None:
        """Queue a call again, before others, after its process died."""
        with self._changed:
            if self.is_ending or call.lost + 1 >= TRIES:
                call.future.set_exception(WorkerLostError())
            else:
                self._calls.appendleft(call._replace(lost=call.lost + 1))
                self._changed.notify()

    def note_failure(self) -> None:
        """Note that a process could not be started. Once none can, no calls are taken."""
        with self._changed:
            if all(slot.has_failed for slot in self._slots):
                self._lose_all()

    def _lose_all(self) -> None:
        while self._calls:
            self._calls.popleft().future.set_exception(WorkerLostError())


class _Slot(threading.Thread):
    """One process, and the thread that speaks with it."""

    def __init__(self, pool: Processes, place: int) -> None:
        super().__init__(daemon=True, name=f"process {place}")
        self._pool = pool
        self._connection: Connection | None = None
        self._changing = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready = self.is_busy = self.has_failed = False
        self._ready_bytes = 0  # in memory when it was ready

    @property
    def grown_bytes(self) -> int:
        """Bytes that the process has taken since it was ready; 0 before, and once it has ended."""
        process = self.process
        return 0 if process is None or not self.is_ready else max(0, resident_bytes_of(process.pid) - self._ready_bytes)

    def run(self) -> None:
        """Answer calls until the pool ends."""
        if self._has_begun():
            while (call := self._pool.take()) is not None:
                self.is_busy = True
                going = self._answered(call)
                self.is_busy = False
                if not going:
                    break
        self._end()

    def kill(self) -> None:
        """End the process."""
        with self._changing:
            if self.process is not None:
                self.process.kill()

    def _answered(self, call: _Call) -> bool:
        """Whether a process made the next call."""
        assert self._connection is not None
        try:
            self._connection.send((call.function, call.arguments))
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            self._end()
            again = not self._pool.is_ending and self._has_begun()
            self._pool.give_back(call)
            return again
        except Exception as error:  # the result cannot be pickled
            call.future.set_exception(error)
            return True
        if kind == ERROR:
            call.future.set_exception(value)
        else:
            call.future.set_result(value)
        return True

    def _has_begun(self) -> bool:
        """Whether a new process has started and can import a search."""
        ours, theirs = socket.socketpair()
        with theirs, self._changing:
            if self._pool.is_ending:
                ours.close()
                return False
            command = [
                sys.executable,
                "-c",
                _BOOT.format(path=sys.path, handle=theirs.fileno(), collect_every=gc.get_threshold()[0]),
            ]
            self.process = subprocess.Popen(  # noqa: S603  # this interpreter
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # stdout carries only the answer
                env={**os.environ, **_SHARED_CORES},
                start_new_session=True,  # Ctrl-C of a terminal is for the parent process
            )
        self._connection = Connection(ours.detach())
        try:
            is_ready = self._connection.recv() == READY
            self._ready_bytes = resident_bytes_of(self.process.pid)
            self.is_ready = is_ready
        except (EOFError, OSError):
            self.has_failed = True
            self._pool.note_failure()
        return self.is_ready

    def _end(self) -> None:
        self.is_ready = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        with self._changing:
            if self.process is not None:
                self.process.kill()
                self.process.wait()
                self.process = None
