from __future__ import annotations

import mmap

from search.session.memory_use import resident_bytes
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
