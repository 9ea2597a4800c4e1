"""A worker process: it claims and runs studies until it receives a signal or its parent ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import FrameType

from app.workers.options import WorkerOptions

_WATCH_S = 0.5  # seconds between two checks of the process that this one was forked from
_PR_SET_PDEATHSIG = 1


def main(options: WorkerOptions) -> None:
    """The whole life of a worker process."""
    stop = threading.Event()
    end_with_parents()
    os.nice(options.niceness)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all processes; the parent ends its workers

    def on_terminate(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_terminate)

    from app.logs import configure_logs
    from app.workers.loop import work

    configure_logs(options.log_format)
    work(options, stop)


def end_with_parents() -> None:
    """End with the process that asked for this one, and with the one that it was forked from, however they end.

    The latter lives until all that it forked have ended.
    """
    forked_by, asked_by = os.getppid(), parent_process()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if asked_by is not None:
        threading.Thread(target=_watch, args=(forked_by, asked_by.sentinel), daemon=True, name="parents").start()


def _watch(forked_by: int, asked_by: int) -> None:
    while not wait([asked_by], _WATCH_S) and os.getppid() == forked_by:  # it may have died before the call of prctl
        pass
    os._exit(1)
