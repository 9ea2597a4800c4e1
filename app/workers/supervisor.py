"""The supervisor of worker processes: starts them, restarts those that die, and ends them with itself."""

from __future__ import annotations

import threading
import time
from multiprocessing.context import ForkServerProcess
from types import TracebackType

import structlog

from app.settings import Settings, load_settings
from app.workers.forking import forking
from app.workers.options import WorkerOptions
from app.workers.process import main

GRACE_S = 10.0  # seconds for the current step before a worker is killed; its study continues from its checkpoint either way
CHECK_S = 0.2
RESTART_S = 1.0  # seconds between two starts of a worker that keeps dying

log = structlog.get_logger()


class Workers:
    """Running worker processes; leaving the context stops them."""

    def __init__(self, count: int, options: WorkerOptions) -> None:
        self._options = options
        self._stop = threading.Event()
        self._processes: list[ForkServerProcess] = []
        self.num_restarts = 0
        self._started = threading.Event()
        # One thread starts all workers and outlives them, since Linux ends a child with the thread that started it.
        self._thread = threading.Thread(target=self._supervise, args=(count,), daemon=True, name="workers")
        self._thread.start()
        self._started.wait()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def stop(self) -> None:
        """Ask every worker to save its study and end; returns when all have ended."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _supervise(self, count: int) -> None:
        try:
            self._processes = [self._start() for _ in range(count)]
            started_s = [time.monotonic()] * count
        finally:
            self._started.set()
        while not self._stop.wait(CHECK_S):
            for index, process in enumerate(self._processes):
                if not process.is_alive() and time.monotonic() - started_s[index] >= RESTART_S:
                    log.warning("worker died and is started again", pid=process.pid, exit_code=process.exitcode)
                    self._processes[index], started_s[index] = self._start(), time.monotonic()
                    self.num_restarts += 1
                    process.close()
        self._end_all()

    def _start(self) -> ForkServerProcess:
        process = forking().Process(target=main, args=(self._options,), daemon=True, name="meshplan worker")
        process.start()
        return process

    def _end_all(self) -> None:
        for process in self._processes:
            process.terminate()
        ends_s = time.monotonic() + GRACE_S
        for process in self._processes:
            process.join(max(0.0, ends_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def start_workers(count: int, url: str, settings: Settings | None = None, *, niceness: int = 0) -> Workers:
    """``count`` workers on the database at ``url``, which must be upgraded."""
    settings = settings or load_settings()
    kept = {f"keep_{what}_days": getattr(settings, f"keep_{what}_days") for what in ("studies", "audit", "checks", "runs")}
    return Workers(count, WorkerOptions(url, settings.lease_s, settings.checkpoint_s, settings.log_format, niceness, **kept))
