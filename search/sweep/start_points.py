"""From which points of a sweep the others start, so that several can be searched at once."""

from __future__ import annotations

BEHIND = 8  # points that may be at work when one begins


def num_known(before: int) -> int:
    """From how many of the points ``before`` it, the first ones, a point starts: half of them, or all but the last few.

    It does not depend on which of them are done, so that the answer is the same whoever works on them.
    """
    return max(before // 2, before - BEHIND)
