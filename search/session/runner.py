"""Runs a search step by step until it ends, reaches a limit or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from documents.sentences import Sentence
from search.errors import SearchError
from search.executors.executor import SERIAL, Executor
from search.heartbeat import heartbeats_to
from search.memory_use import resident_bytes
from search.results.search_result import SearchResult
from search.session.progress import (
    EXPLAIN,
    UNFINISHED,
    Clock,
    Progress,
    ProgressCallback,
    ProgressT,
    while_explaining,
    while_searching,
)
from search.trials.trial import Trial

INTERRUPT = "interrupt"


ProgressT_co = TypeVar("ProgressT_co", bound=Progress, covariant=True)


class SteppedWork(Protocol[ProgressT_co]):
    """Work that advances in steps of about a second or less."""

    def advance(self) -> bool:
        """Do one more step; ``False`` once there is none."""

    @property
    def progress(self) -> ProgressT_co:
        """Progress of the work."""


class SteppedSearch(SteppedWork[Progress], Protocol):
    """A search. ``checkpoint()`` and ``trials`` as JSON are all that another process needs to continue it."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials of a sampler or a refinement; empty for an exhaustive search."""

    def checkpoint(self) -> dict[str, Any]:
        """The state of the search without its trials, as JSON."""

    def result(self, stopped_by: str | None = None) -> SearchResult:
        """The result so far."""


def run_to_end(
    work: SteppedWork[ProgressT],
    time_limit_s: float | None,
    on_progress: Callable[[ProgressT], bool | None] | None,
    share: float = UNFINISHED,
    *,
    memory_limit_bytes: int | None = None,
    executor: Executor = SERIAL,
) -> str | None:
    """Advance until nothing is left (``None``), a limit is reached or an interrupt comes; returns what stopped it.

    ``on_progress`` is called after every step, and once more at the end. It stops the search by returning ``False``. ``share`` is
    the fraction of the progress that is reached then. ``memory_limit_bytes`` is what the process may take in addition to what it
    has at the start, together with the processes of ``executor``. Where they take more together, these end first, and this
    process goes on alone.
    """
    stopped_by = None
    most_bytes = None if memory_limit_bytes is None else resident_bytes() + memory_limit_bytes
    try:
        while work.advance():
            progress = while_searching(work.progress, share)
            if on_progress is not None and on_progress(progress) is False:
                return INTERRUPT
            if time_limit_s is not None and progress.elapsed_s >= time_limit_s:
                stopped_by = "time_limit"
                break
            if most_bytes is not None and (held_bytes := resident_bytes()) + executor.grown_bytes >= most_bytes:
                if held_bytes >= most_bytes:
                    stopped_by = "memory_limit"
                    break
                executor.close()
        if on_progress is not None and on_progress(replace(while_searching(work.progress, share), phase=EXPLAIN)) is False:
            stopped_by = stopped_by or INTERRUPT
    except KeyboardInterrupt:
        stopped_by = INTERRUPT
    return stopped_by


def explained_result(
    search: SteppedSearch, stopped_by: str | None, on_progress: ProgressCallback | None = None, clock: Clock | None = None
) -> SearchResult:
    """The result of a search. A first interrupt stops the explanation; only a second one ends the process.

    ``on_progress`` is called after every plan with the seconds of ``clock`` since, and interrupts by returning ``False``.
    """
    begun_s = 0.0 if clock is None else clock()
    num_beats = 0

    def tell() -> None:
        nonlocal stopped_by, num_beats
        num_beats += 1
        if on_progress is not None and stopped_by != INTERRUPT:
            progress = while_explaining(while_searching(search.progress), num_beats)
            more_s = 0.0 if clock is None else clock() - begun_s
            if on_progress(replace(progress, elapsed_s=progress.elapsed_s + more_s)) is False:
                stopped_by = INTERRUPT
                raise KeyboardInterrupt

    with heartbeats_to(tell):
        try:
            return search.result(stopped_by)
        except KeyboardInterrupt:
            return search.result(stopped_by or INTERRUPT)


def check_time_limit(time_limit_s: float | None, clock: Clock | None) -> None:
    """Raise ``SearchError`` for a limit that is not positive, or without a clock."""
    if time_limit_s is not None and (clock is None or not time_limit_s > 0):
        raise SearchError(Sentence("time_limit_s: {} is not a positive number of seconds of a given clock.", time_limit_s))
