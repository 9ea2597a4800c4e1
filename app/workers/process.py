"""A worker process: it claims and runs studies until it receives a signal or its parent ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType

from app.workers.options import WorkerOptions

_WATCH_S = 0.5  # seconds between two checks of the parent
_PR_SET_PDEATHSIG = 1


def main(options: WorkerOptions, parent_pid: int) -> None:
    """The whole life of a worker process."""
    os.environ["OMP_NUM_THREADS"] = "1"  # must precede the import of NumPy; several workers share the cores
    stop = threading.Event()
    end_with(parent_pid, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all processes; the parent ends its workers

    def on_terminate(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_terminate)

    from app.logs import configure_logs
    from app.workers.loop import work

    configure_logs(options.log_format)
    work(options, stop)


def end_with(parent_pid: int, stop: threading.Event) -> None:
    """End with the parent, however it ends: through a kernel signal on Linux, by polling the parent's id elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(parent_pid, stop), daemon=True, name="parent").start()


def _watch(parent_pid: int, stop: threading.Event) -> None:
    while os.getppid() == parent_pid:  # the parent may have died before the call of prctl
        time.sleep(_WATCH_S)
    os._exit(1)
