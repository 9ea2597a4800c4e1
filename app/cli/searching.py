"""A search at work for a command: who works on it, how far it is, and Ctrl-C, heeded between two steps."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar

from app.answers.executors import opened
from app.cli.progress import search_progress
from app.language.choice import said
from documents.sentences import Sentence

if TYPE_CHECKING:
    from search.executors.executor import Executor
    from search.session.progress import ProgressCallback

NOTED = Sentence("Interrupted: the answer so far follows; once more does not wait for the step at work.")

ProgressT = TypeVar("ProgressT")


class Heeding(Protocol):
    """Wraps what shows progress."""

    def __call__(self, show: Callable[[ProgressT], object], /) -> Callable[[ProgressT], bool]:
        """The same, which says whether to go on."""


@contextmanager
def searching(executor: str | None) -> Iterator[tuple[ProgressCallback, Executor]]:
    """What to tell how far a search is, and who takes parts of it: the ``--executor`` given, or that of the environment."""
    with interruptible() as heeding, opened(executor, "--executor") as workers, search_progress() as show:
        yield heeding(show), workers


@contextmanager
def interruptible() -> Iterator[Heeding]:
    """Makes of what shows progress one that says ``False`` once an interrupt has come, which ends work after its step.

    A second interrupt is raised where it comes, and so is the first where no handler can be set: outside of the main thread.
    """
    has_come = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal has_come
        has_come = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write(f"\n{said(NOTED)}\n")

    def heeding(show: Callable[[ProgressT], object]) -> Callable[[ProgressT], bool]:
        def shown(progress: ProgressT) -> bool:
            show(progress)
            return not has_come

        return shown

    if threading.current_thread() is not threading.main_thread():
        yield heeding
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield heeding
    finally:
        signal.signal(signal.SIGINT, before)
