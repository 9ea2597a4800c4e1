"""Intervals of numbers that follow from a step time, such as days and cost: they carry the interval of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from pydantic import Field

from app.text.json_documents import Document

TENTH = NormalDist().inv_cdf(0.9)  # standard deviations beyond which a tenth of a normal distribution lies


class Interval(Document):
    """The ends of an 80 % interval."""

    low: float
    high: float


Intervals = dict[str, Interval]
INTERVALS: Any = Field(
    default={},
    description="80 % intervals of numbers here that follow from the step time, by their names; empty where it has none",
)


def step_ratios(estimate: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of the interval of the step time, over the step time; None without an interval."""
    low_s, high_s, step_s = (estimate.get(name) for name in ("step_time_low_s", "step_time_high_s", "step_time_s"))
    return None if low_s is None or high_s is None or not step_s else (low_s / step_s, high_s / step_s)


def intervals_of(
    estimate: Mapping[str, Any], growing: Mapping[str, float | None], shrinking: Mapping[str, float | None]
) -> dict[str, dict[str, float]]:
    """The intervals of numbers that grow, or shrink, with the step time of ``estimate``; unknown numbers have none."""
    ratios = step_ratios(estimate)
    if ratios is None:
        return {}
    shortest, longest = ratios
    return {
        **{name: {"low": value * shortest, "high": value * longest} for name, value in growing.items() if value is not None},
        **{name: {"low": value / longest, "high": value / shortest} for name, value in shrinking.items() if value is not None},
    }


def step_factor_at(estimate: Mapping[str, Any], probability: float) -> float | None:
    """The step time over its estimate that is not exceeded with this probability: log-normal on both sides."""
    ratios = step_ratios(estimate)
    if ratios is None:
        return None
    score = NormalDist().inv_cdf(probability)
    return math.exp(score * _spread(ratios)[score > 0.0])


def probability_of_factor(estimate: Mapping[str, Any], factor: float) -> float | None:
    """The probability that the step time is at most ``factor`` times its estimate."""
    ratios = step_ratios(estimate)
    if ratios is None:
        return None
    spread = _spread(ratios)[factor > 1.0]
    return NormalDist().cdf(math.log(factor) / spread) if spread > 0.0 else float(factor >= 1.0)


def _spread(ratios: tuple[float, float]) -> tuple[float, float]:
    """Standard deviations of the logarithm of the step time, below and above the estimate: a tenth lies beyond each end."""
    low, high = (abs(math.log(ratio)) / TENTH for ratio in ratios)
    return low, high
