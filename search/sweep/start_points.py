"""The points of a sweep whose plans others start from, so that several points can be searched at once."""

from __future__ import annotations

BEHIND = 8  # points that may be in progress when one begins


def num_known(before: int) -> int:
    """The number of leading points from which a point starts: half of those ``before`` it, or all but the last few.

    It depends on the place alone, not on which points are done, so that the result does not depend on it either.
    """
    return max(before // 2, before - BEHIND)
