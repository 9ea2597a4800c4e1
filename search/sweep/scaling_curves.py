"""Scaling curves over the points of a sweep, and the knee at which scaling ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

KNEE = 0.5  # fraction of a device's rate at the smallest count: below it, more than half of each further device is lost


def linearity(devices: Sequence[int], tokens_per_s: Sequence[float]) -> list[float]:
    """Tokens per second and device over those at the first, smallest count."""
    first = tokens_per_s[0] / devices[0]
    return [rate / count / first for count, rate in zip(devices, tokens_per_s, strict=True)]


def marginal(devices: Sequence[int], tokens_per_s: Sequence[float]) -> list[float | None]:
    """The gain of each further device over the rate of a device at the first count; ``None`` for the first count."""
    first = tokens_per_s[0] / devices[0]
    counts, rates = pairwise(devices), pairwise(tokens_per_s)
    return [
        None,
        *((rate - before) / (more - fewer) / first for (fewer, more), (before, rate) in zip(counts, rates, strict=True)),
    ]


def knee(devices: Sequence[int], tokens_per_s: Sequence[float]) -> int | None:
    """The last count before further devices bring less than ``KNEE``; ``None`` where they always bring more."""
    brought = marginal(devices, tokens_per_s)
    return next((devices[place - 1] for place, gain in enumerate(brought) if gain is not None and gain < KNEE), None)
