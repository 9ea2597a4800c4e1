"""What points of a sweep say together: how a job scales, where that ends, and which points no other beats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

KNEE = 0.5  # of what a device brings at the smallest count: below it, more than half of each further device is lost


def linearity(devices: Sequence[int], tokens_per_s: Sequence[float]) -> list[float]:
    """Tokens a second of each device over those at the first, smallest count."""
    first = tokens_per_s[0] / devices[0]
    return [rate / count / first for count, rate in zip(devices, tokens_per_s, strict=True)]


def marginal(devices: Sequence[int], tokens_per_s: Sequence[float]) -> list[float | None]:
    """What each device beyond the count before brings, over what one brings at the first count; nothing for the first."""
    first = tokens_per_s[0] / devices[0]
    counts, rates = pairwise(devices), pairwise(tokens_per_s)
    return [
        None,
        *((rate - before) / (more - fewer) / first for (fewer, more), (before, rate) in zip(counts, rates, strict=True)),
    ]


def knee(devices: Sequence[int], tokens_per_s: Sequence[float]) -> int | None:
    """The last count before further devices bring less than ``KNEE``; none where they always bring more."""
    brought = marginal(devices, tokens_per_s)
    return next((devices[place - 1] for place, gain in enumerate(brought) if gain is not None and gain < KNEE), None)


def pareto(values: Sequence[Sequence[float]]) -> list[int]:
    """Rows that no other row equals or beats in every value, smaller being better; in the order of the first value.

    Of equal rows the first stays.
    """
    order = sorted(range(len(values)), key=lambda row: (*values[row], row))
    front: list[int] = []
    for row in order:
        if not any(all(a <= b for a, b in zip(values[kept], values[row], strict=True)) for kept in front):
            front.append(row)
    return front
