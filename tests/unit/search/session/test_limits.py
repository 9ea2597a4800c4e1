from __future__ import annotations

import mmap
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from search.memory_use import resident_bytes
from search.session.progress import Progress
from search.session.runner import run_to_end

MIB = 1 << 20


def taken(size_bytes: int) -> mmap.mmap:
    """Memory from the system itself: what the process has freed before is not used again for it."""
    found = mmap.mmap(-1, size_bytes)
    for page in range(0, size_bytes, mmap.PAGESIZE):
        found[page] = 1
    return found


class Growing:
    """Work of a hundred steps, each of which keeps 16 MiB."""

    def __init__(self) -> None:
        self.kept: list[mmap.mmap] = []

    def advance(self) -> bool:
        self.kept.append(taken(16 * MIB))
        return len(self.kept) < 100

    @property
    def progress(self) -> Progress:
        return Progress(len(self.kept) / 100, 0, 0, 0, None, 0.0)


def test_memory_that_is_kept_is_seen() -> None:
    before = resident_bytes()
    kept = taken(64 * MIB)
    assert 60 * MIB < resident_bytes() - before < 80 * MIB
    assert len(kept) == 64 * MIB


def test_a_search_that_takes_more_memory_than_it_may_is_cut() -> None:
    work = Growing()
    assert run_to_end(work, None, None, memory_limit_bytes=72 * MIB) == "memory_limit"
    assert 4 <= len(work.kept) <= 6  # 72 / 16 = 4.5; other parts of the process may take or give back some
    other = Growing()
    assert run_to_end(other, None, lambda progress: len(other.kept) < 3, memory_limit_bytes=72 * MIB) == "interrupt"


class Grown:
    """An executor whose processes have taken memory, until they end."""

    room = 0

    def __init__(self, grown_bytes: int) -> None:
        self.grown_bytes, self.num_closed = grown_bytes, 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        raise AssertionError

    def close(self) -> None:
        self.grown_bytes, self.num_closed = 0, self.num_closed + 1


def test_processes_that_take_too_much_end_before_the_search_is_cut() -> None:
    ended_after: list[int] = []
    work, others = Growing(), Grown(500 * MIB)
    others_end = others.close

    def close() -> None:
        ended_after.append(len(work.kept))
        others_end()

    others.close = close  # type: ignore[method-assign]
    assert run_to_end(work, None, None, memory_limit_bytes=560 * MIB, executor=others) == "memory_limit"
    assert others.num_closed == 1
    assert 3 <= ended_after[0] <= 5  # 60 / 16 = 3.75
    assert 34 <= len(work.kept) <= 36  # 560 / 16 = 35
    few = Grown(10 * MIB)
    assert run_to_end(Growing(), None, lambda progress: progress.done_fraction < 0.03, memory_limit_bytes=560 * MIB, executor=few)
    assert few.num_closed == 0
