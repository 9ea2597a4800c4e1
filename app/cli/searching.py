"""A search at work for a command: who works on it, how far it is, and Ctrl-C, heeded between two steps."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from app.answers.executors import opened
from app.cli.progress import search_progress

if TYPE_CHECKING:
    from search.executors.executor import Executor
    from search.stepwise import ProgressCallback

NOTED = "Interrupted: the answer so far follows; once more does not wait for the step at work."

Far = TypeVar("Far")


@contextmanager
def searching(executor: str | None) -> Iterator[tuple[ProgressCallback, Executor]]:
    """What to tell how far a search is, and who takes parts of it: the ``--executor`` given, or that of the environment."""
    with opened(executor, "--executor") as workers, search_progress() as show, interruptible(show) as on_progress:
        yield on_progress, workers


@contextmanager
def interruptible(show: Callable[[Far], None]) -> Iterator[Callable[[Far], bool]]:
    """Shows progress, and says ``False`` once an interrupt has come, which ends work after its step.

    A second interrupt is raised where it comes, and so is the first where no handler can be set: outside of the main thread.
    """
    has_come = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal has_come
        has_come = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write(f"\n{NOTED}\n")

    def shown(progress: Far) -> bool:
        show(progress)
        return not has_come

    if threading.current_thread() is not threading.main_thread():
        yield shown
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield shown
    finally:
        signal.signal(signal.SIGINT, before)
