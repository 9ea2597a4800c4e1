"""Time spans, and the attribution of moments in which several parts run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Spans = NDArray[np.float64]  # [n, 2]: starts and ends, apart and in order

_LEAST_S = 1e-9  # traces have nanoseconds; smaller differences are rounding of sums
NONE: Spans = np.zeros((0, 2))


def merged(spans: Spans) -> Spans:
    """Merge spans that overlap or touch; the result is in order."""
    spans = spans[spans[:, 1] > spans[:, 0]]
    if not len(spans):
        return NONE
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(spans[:, 1])
    begins = np.concatenate([[True], spans[1:, 0] > reached[:-1]])
    lasts = np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(spans) - 1]])
    return np.stack([spans[begins, 0], reached[lasts]], axis=1)


def length(spans: Spans) -> float:
    """Total length of disjoint spans. [s]"""
    return float((spans[:, 1] - spans[:, 0]).sum())


def within(spans: Spans, start_s: float, end_s: float) -> Spans:
    """The spans, cut to a window."""
    return np.clip(spans, start_s, end_s)


def shared_out(busy: Iterable[tuple[str, Spans]]) -> tuple[Mapping[str, float], Mapping[str, float], float]:
    """Time of each key alone, time of each that overlaps an earlier key, and time of all together. [s]"""
    exposed: dict[str, float] = {}
    masked: dict[str, float] = {}
    taken, total = NONE, 0.0
    for key, spans in busy:
        own = merged(spans)
        taken = merged(np.concatenate([taken, own]))
        known, total = total, length(taken)
        exposed[key] = total - known
        hidden = length(own) - exposed[key]
        masked[key] = hidden if hidden > _LEAST_S else 0.0
    return exposed, masked, total
