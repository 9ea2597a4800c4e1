"""Exact fraction of useful time under random failures of several classes, by a renewal argument.

A blocking checkpoint follows each ``interval_s`` of useful time. A failure that loses state returns the job to the last
checkpoint; a failure that keeps it only stops the job. Another failure of any class can interrupt a recovery, which then
restarts as the recovery of that class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cost_models.delivery.failures import FailureClass


@dataclass(frozen=True)
class Effective:
    """Use of a job's time as fractions that sum to 1; ``recovery`` is by class."""

    useful: float
    checkpoints: float
    repeated: float  # work that a failure lost, and unfinished checkpoints
    recovery: Mapping[str, float]


@dataclass(frozen=True)
class Interruptions:
    """Combined effect of several failure classes.

    ``mtbf_s`` is the mean time between failures while the job runs. ``lossy_mtbf_s`` is that between failures that lose work; a
    failure during a recovery can lose work that the recovery would have kept. ``recovery_s`` is the mean time until the job runs
    again, by the class in which the time is spent, interrupted recoveries included.
    """

    mtbf_s: float
    lossy_mtbf_s: float
    recovery_s: Mapping[str, float]


def interruptions(classes: Sequence[FailureClass]) -> Interruptions:
    """Combine failure classes into one stream of failures; times are infinite if nothing fails."""
    rate = math.fsum(each.rate_per_s for each in classes)
    if rate == 0.0:
        return Interruptions(math.inf, math.inf, {each.name: 0.0 for each in classes})
    # A recovery of length R ends with probability exp(-rate R); otherwise the next failure's recovery begins.
    ends = [math.exp(-rate * each.recovery_s) for each in classes]
    shares = [each.rate_per_s / rate for each in classes]
    ending = math.fsum(share * end for share, end in zip(shares, ends, strict=True))
    if ending == 0.0:
        return Interruptions(1.0 / rate, 1.0 / rate, {each.name: math.inf for each in classes})
    spent = {
        each.name: share / ending * -math.expm1(-rate * each.recovery_s) / rate
        for each, share in zip(classes, shares, strict=True)
    }
    kept = [(share, end) for each, share, end in zip(classes, shares, ends, strict=True) if each.keeps_state]
    struck = math.fsum(share * (1.0 - end) for share, end in kept)
    keeping = math.fsum(share * end for share, end in kept) / (1.0 - struck) if struck < 1.0 else 1.0
    lossy = 1.0 - keeping if len(kept) < len(classes) else 0.0
    return Interruptions(1.0 / rate, math.inf if lossy <= 0.0 else 1.0 / (rate * lossy), spent)


def effective(classes: Sequence[FailureClass], interval_s: float, blocking_s: float) -> Effective:
    """Use of a job's time if a checkpoint that blocks ``blocking_s`` follows each ``interval_s`` of useful time.

    Nothing is useful if the job never gets from one checkpoint to the next. An infinite ``interval_s`` means no checkpoints; only
    a job that loses no state survives it.
    """
    found = interruptions(classes)
    downtime = math.fsum(found.recovery_s.values())
    if math.isinf(found.lossy_mtbf_s):
        cycle = 0.0 if math.isinf(interval_s) else blocking_s / interval_s
        running = 1.0 + cycle  # seconds that the job runs for each useful second
        repeated = 0.0
    else:
        exponent = (interval_s + blocking_s) / found.lossy_mtbf_s
        if exponent > 700.0 or math.isinf(downtime):
            return _stuck(classes, found)
        # Running time of a segment with its failed attempts is M (e^((tau + C) / M) - 1), here for each useful second.
        running = found.lossy_mtbf_s * math.expm1(exponent) / interval_s
        cycle = blocking_s / interval_s
        repeated = running - 1.0 - cycle
    if math.isinf(downtime):
        return _stuck(classes, found)
    total = running * (1.0 + (0.0 if math.isinf(found.mtbf_s) else downtime / found.mtbf_s))
    return Effective(
        useful=1.0 / total,
        checkpoints=cycle / total,
        repeated=max(repeated, 0.0) / total,
        recovery={
            name: 0.0 if math.isinf(found.mtbf_s) else running * spent / found.mtbf_s / total
            for name, spent in found.recovery_s.items()
        },
    )


def _stuck(classes: Sequence[FailureClass], found: Interruptions) -> Effective:
    """All time goes to repeated work or to recoveries."""
    downtime = math.fsum(found.recovery_s.values())
    share = 1.0 if math.isinf(downtime) else downtime / (downtime + found.mtbf_s)
    parts = [each.rate_per_s for each in classes]
    return Effective(
        0.0, 0.0, 1.0 - share, {each.name: share * part / math.fsum(parts) for each, part in zip(classes, parts, strict=True)}
    )
