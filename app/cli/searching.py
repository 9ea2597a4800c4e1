"""A search for a command: its executor, its progress, and Ctrl-C, which is handled between two steps."""

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


class InterruptibleProgress(Protocol):
    """A progress callback that also handles interrupts."""

    def __call__(self, show: Callable[[ProgressT], object], /) -> Callable[[ProgressT], bool]:
        """Show progress and return whether to go on."""


@contextmanager
def searching(executor: str | None) -> Iterator[tuple[ProgressCallback, Executor]]:
    """The progress callback of a search, and its executor: from ``--executor`` or the environment."""
    with interruptible() as heeding, opened(executor, "--executor") as workers, search_progress() as show:
        yield heeding(show), workers


@contextmanager
def interruptible() -> Iterator[InterruptibleProgress]:
    """Wrap a progress callback so that it returns ``False`` after an interrupt, which ends the work after the current step.

    A second interrupt is raised at once. Outside of the main thread no handler can be set, so the first is raised as well.
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
