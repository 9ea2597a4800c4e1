"""Exact fraction of useful time under random failures of several classes, by a renewal argument.

A blocking checkpoint follows each ``interval_s`` of useful time, and is safe once storage has all of it. A failure that loses
state returns the job to the last safe checkpoint; a failure that keeps it only stops the job. A loss spike returns it further.
Another failure of any class can interrupt a recovery, which then restarts as the recovery of that class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cost_models.delivery.failures import FailureClass
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Effective:
    """Use of a job's time as fractions that sum to 1; ``recovery`` is by class."""

    useful: float
    checkpoints: float
    repeated: float  # work that a failure lost, and unfinished checkpoints
    recovery: Mapping[str, float]


@dataclass(frozen=True)
class LossSpikes:
    """Spikes of the loss, which strike at random while a job trains, and send it back.

    ``rate_per_s`` is for the training job. The job returns to the last checkpoint that is ``rollback_s`` of useful time older
    than the decision, and trains again ``recovery_s`` after it.
    """

    rate_per_s: float
    rollback_s: float
    recovery_s: float


NO_SPIKES = LossSpikes(0.0, 0.0, 0.0)


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


def effective(
    classes: Sequence[FailureClass],
    interval_s: float,
    blocking_s: float,
    drain_s: float = 0.0,
    spikes: LossSpikes = NO_SPIKES,
) -> Effective:
    """Use of a job's time if a checkpoint that blocks ``blocking_s`` follows each ``interval_s`` of useful time.

    A checkpoint is safe after a further ``drain_s`` of running, which must end before the next one. Nothing is useful if the job
    never gets from one checkpoint to the next. An infinite ``interval_s`` means no checkpoints; only a job that loses no state
    survives it.
    """
    found = interruptions(classes)
    downtime = math.fsum(found.recovery_s.values())
    lossy = 0.0 if math.isinf(found.lossy_mtbf_s) else 1.0 / found.lossy_mtbf_s
    cycle = 0.0 if math.isinf(interval_s) else blocking_s / interval_s
    # Seconds that the job runs for each useful second.
    running = 1.0 + cycle
    if lossy + spikes.rate_per_s > 0.0:
        useful = _useful_of_running(lossy, interval_s, blocking_s, drain_s, spikes)
        running = 1.0 / useful if useful > 0.0 else math.inf
    if math.isinf(running) or math.isinf(downtime):
        return _stuck(classes, found)
    failures = 0.0 if math.isinf(found.mtbf_s) else 1.0 / found.mtbf_s
    spent = {name: running * failures * lost_s for name, lost_s in found.recovery_s.items()} if failures else {}
    spent = {name: spent.get(name, 0.0) for name in found.recovery_s}
    if spikes.rate_per_s:
        # A failure can strike the recovery from a spike, which then goes on as that of the failure.
        struck = -math.expm1(-failures * spikes.recovery_s)
        recovery_s = struck / failures + struck * downtime if failures else spikes.recovery_s
        spent["loss_spike"] = running * spikes.rate_per_s * recovery_s
    total = running + math.fsum(spent.values())
    return Effective(
        useful=1.0 / total,
        checkpoints=cycle / total,
        repeated=max(running - 1.0 - cycle, 0.0) / total,
        recovery={name: part / total for name, part in spent.items()},
    )


def _useful_of_running(lossy: float, interval_s: float, blocking_s: float, drain_s: float, spikes: LossSpikes) -> float:
    """Useful time over running time, by the progress from one event that loses work to the next.

    Running time t after an event, k = floor(t / (tau + C)) checkpoints have ended. A failure keeps those that are drained. A
    spike keeps those that are old enough: with a rollback of a tau + b all but a, and one less in the first b of a cycle.
    """
    rate = lossy + spikes.rate_per_s
    cycles = (interval_s + blocking_s) * rate  # of a cycle, in mean times between events
    if cycles > 700.0:
        return 0.0
    ended = 1.0 / math.expm1(cycles)
    whole, rest_s = divmod(spikes.rollback_s, interval_s)
    after_spike = ended - whole - math.expm1(-rest_s * rate) / math.expm1(-cycles)
    progress = lossy * ended * math.exp(-drain_s * rate) + spikes.rate_per_s * after_spike
    return max(interval_s * progress, 0.0)


def _stuck(classes: Sequence[FailureClass], found: Interruptions) -> Effective:
    """All time goes to repeated work or to recoveries."""
    downtime = math.fsum(found.recovery_s.values())
    share = 1.0 if math.isinf(downtime) else downtime / (downtime + found.mtbf_s)
    parts = [each.rate_per_s for each in classes]
    whole = math.fsum(parts) or 1.0
    return Effective(0.0, 0.0, 1.0 - share, {each.name: share * part / whole for each, part in zip(classes, parts, strict=True)})
