"""Many simulated histories of one job, as columns. They give the spread, which the closed forms lack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.delivery.failures import FailureClass
from cost_models.delivery.renewal import NO_SPIKES, LossSpikes
from documents.late_methods import dataclass

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
HISTORIES_AT_ONCE = 20_000  # all their columns fit in the cache


@dataclass(frozen=True)
class Campaign:
    """A job with all its interruptions. Fields as the arguments of ``effective``, ``supply`` and ``rate_left``."""

    classes: Sequence[FailureClass]
    interval_s: float
    blocking_s: float
    num_spares: int = 0
    repair_s: float = 0.0
    num_replicas: int = 1
    replicas_per_node: float = 1.0
    elastic: bool = False
    slowdowns_per_s: float = 0.0
    noticed_after_s: float = 0.0
    slowdown_fraction: float = 0.0
    drain_s: float = 0.0
    spikes: LossSpikes = NO_SPIKES


@dataclass(frozen=True)
class Histories:
    """Result of each history, ``[n]``: wall time, and useful time at full rate within it."""

    elapsed_s: Floats
    useful_s: Floats
    num_failures: NDArray[np.int64]


def histories(
    campaign: Campaign, num_histories: int, seed: int, *, horizon_s: float = math.inf, target_s: float = math.inf
) -> Histories:
    """Simulate a job ``num_histories`` times, ``[num_histories]``.

    Each history runs until ``horizon_s`` of wall time has passed or ``target_s`` of useful time at full rate is done; one of them
    must be finite. The same seed gives the same histories.
    """
    generator = np.random.default_rng(seed)
    parts = []
    for start in range(0, num_histories, HISTORIES_AT_ONCE):
        played = _HistoryColumns(campaign, min(HISTORIES_AT_ONCE, num_histories - start), generator, horizon_s, target_s)
        parts.append(played.to_the_end())
    return Histories(*(np.concatenate([getattr(part, name) for part in parts]) for name in Histories.__dataclass_fields__))


@dataclass(frozen=True)
class Stretch:
    """A period in which a job does one thing.

    ``state``: ``runs``, ``recovers`` or ``waits`` for nodes. ``rate`` is the useful rate over the full rate. ``ended_by`` is the
    class of the failure at its end; ``repeated_s`` is the useful time that this failure loses.
    """

    start_s: float
    end_s: float
    state: str
    rate: float
    ended_by: str | None = None
    repeated_s: float = 0.0


def one_history(campaign: Campaign, seed: int, horizon_s: float) -> list[Stretch]:
    """One history of a job as periods without a gap from 0 to ``horizon_s``; checkpoints are part of ``runs``.

    It is the history that ``histories`` simulates alone with this seed.
    """
    played = _RecordedHistory(campaign, 1, np.random.default_rng(seed), horizon_s, math.inf)
    played.to_the_end()
    return played.stretches


class _HistoryColumns:
    """State of all unfinished histories; each simulation step advances every history by one event."""

    def __init__(self, campaign: Campaign, count: int, generator: np.random.Generator, horizon_s: float, target_s: float) -> None:
        self.campaign, self.generator, self.horizon_s, self.target_s = campaign, generator, horizon_s, target_s
        rates = np.array([each.rate_per_s for each in campaign.classes])
        self.rate = float(rates.sum())
        self.up_to = np.cumsum(rates) / self.rate if self.rate else rates
        self.recovery_s = np.array([each.recovery_s for each in campaign.classes])
        self.keeps = np.array([each.keeps_state for each in campaign.classes], dtype=bool)
        self.replaces = np.array([each.replaces_node for each in campaign.classes], dtype=bool)
        node_rate = float(rates[self.replaces].sum())
        mean = node_rate * campaign.repair_s
        slots = math.ceil(mean + 12.0 * math.sqrt(mean) + 12.0) + campaign.num_spares if mean else 0
        self.tracks_nodes = slots > 0
        self.now, self.saved, self.unsaved = np.zeros((3, count))
        self.draining = np.zeros(count)  # useful work of the last checkpoint, until storage has it
        self.position = np.zeros(count)  # since the last checkpoint ended
        self.recovering = np.zeros(count)  # remaining seconds of recovery
        self.slow_until = np.zeros(count)
        self.back_at = np.zeros((count, slots))  # when nodes come back from repair
        self.failures = np.zeros(count, dtype=np.int64)
        self.index = np.arange(count)
        self.found = Histories(np.empty(count), np.empty(count), np.empty(count, dtype=np.int64))

    def to_the_end(self) -> Histories:
        while len(self.index):
            self._advance()
        return self.found

    def _advance(self) -> None:
        share, next_back = self._nodes()
        rate = share / (1.0 + self.campaign.slowdown_fraction * (self.slow_until > self.now))
        runs = (self.recovering <= 0.0) & (share > 0.0)
        waits = (self.recovering <= 0.0) & (share <= 0.0)
        until_failure = self._draw(self.rate * np.where(waits, 0.0, np.maximum(share, 0.0)))
        until_slow, slow_ends = self._slow(runs)
        until_target = np.where(runs, self._until_target(rate), np.inf)
        ends = np.where(runs, np.minimum.reduce([next_back - self.now, until_slow, slow_ends]), np.inf)
        ends = np.where(waits, next_back - self.now, np.where(self.recovering > 0.0, self.recovering, ends))
        spikes_per_s = self.campaign.spikes.rate_per_s
        until_spike = self._draw(np.where(runs, spikes_per_s * rate, 0.0)) if spikes_per_s else np.full(len(runs), np.inf)
        step = np.minimum.reduce([until_failure, until_spike, ends, until_target, self.horizon_s - self.now])
        self._run(runs, step, rate)
        self.recovering = np.maximum(self.recovering - step, 0.0)
        self.now = self.now + step
        self.slow_until = np.where(runs & (until_slow <= step), self.now + self.campaign.noticed_after_s, self.slow_until)
        is_done = (self.now >= self.horizon_s) | (until_target <= step)
        self._record(runs, waits, rate, step)
        self._fail(~is_done & (until_failure <= step))
        if spikes_per_s:
            self._spike(~is_done & (until_spike <= step))
        if is_done.any():
            self._remove(is_done)

    def _record(self, runs: Bools, waits: Bools, rate: Floats, step: Floats) -> None:
        """Record the last period; a subclass that keeps periods overrides this."""

    def _nodes(self) -> tuple[Floats, Floats]:
        """Share of the replicas that have their nodes, and when the next node returns if that matters."""
        campaign = self.campaign
        if not self.tracks_nodes:
            return np.ones(len(self.now)), np.full(len(self.now), np.inf)
        away = self.back_at > self.now[:, None]
        missing = away.sum(axis=1) - campaign.num_spares
        lost_each = max(campaign.replicas_per_node, 1.0)
        share = np.clip(1.0 - missing * lost_each / campaign.num_replicas, 0.0, 1.0) if campaign.elastic else missing <= 0.0
        share = np.where(missing <= 0, 1.0, share)
        next_back = np.where(missing > 0, np.where(away, self.back_at, np.inf).min(axis=1), np.inf)
        return share, next_back

    def _slow(self, runs: Bools) -> tuple[Floats, Floats]:
        """Time until a node turns slow, and until the current slow node is removed."""
        if not self.campaign.slowdowns_per_s:
            return np.full(len(runs), np.inf), np.full(len(runs), np.inf)
        left = self.slow_until - self.now
        return self._draw(np.where(runs, self.campaign.slowdowns_per_s, 0.0)), np.where(left > 0.0, left, np.inf)

    def _draw(self, rate: Floats) -> Floats:
        """Exponential times. They have no memory, so they can be drawn anew at each event."""
        draws = self.generator.standard_exponential(len(rate))
        times: Floats = np.divide(draws, rate, out=np.full(len(rate), np.inf), where=rate > 0.0)
        return times

    def _until_target(self, rate: Floats) -> Floats:
        """Running time until all useful work is done, with the checkpoints in between."""
        campaign = self.campaign
        if math.isinf(self.target_s):
            return np.full(len(rate), np.inf)
        still = self.target_s - self._progress()
        left: Floats = np.divide(still, rate, out=np.full(len(rate), np.inf), where=rate > 0.0)
        if math.isinf(campaign.interval_s):
            return left
        useful = np.minimum(self.position, campaign.interval_s) + left
        num_before = np.maximum(np.ceil(useful / campaign.interval_s) - 1.0, 0.0)
        with np.errstate(invalid="ignore"):
            until = useful + num_before * campaign.blocking_s - self.position
        return np.where(np.isfinite(left), until, np.inf)

    def _run(self, runs: Bools, step: Floats, rate: Floats) -> None:
        interval_s, cycle_s = self.campaign.interval_s, self.campaign.interval_s + self.campaign.blocking_s
        step = np.where(runs, step, 0.0)
        if math.isinf(interval_s):
            self.unsaved = self.unsaved + rate * step
            return
        total = self.position + step
        passed = np.floor(total / cycle_s)
        rest = total - passed * cycle_s
        before, behind = np.minimum(self.position, interval_s), np.minimum(rest, interval_s)
        crossed = passed > 0.0
        ended = self.unsaved + rate * (interval_s - before)  # in the first checkpoint that ends
        last = np.where(passed > 1.0, rate * interval_s, ended)
        safe = self.draining + ended + rate * (passed - 1.0) * interval_s - last
        self.saved = np.where(crossed, self.saved + safe, self.saved)
        self.draining = np.where(crossed, last, self.draining)
        is_safe = rest >= self.campaign.drain_s
        self.saved = self.saved + np.where(is_safe, self.draining, 0.0)
        self.draining = np.where(is_safe, 0.0, self.draining)
        self.unsaved = np.where(crossed, rate * behind, self.unsaved + rate * (behind - before))
        self.position = rest

    def _fail(self, failed: Bools) -> None:
        rows = np.flatnonzero(failed)
        if not len(rows):
            return
        self.failures[rows] += 1
        kind = self._kinds(len(rows))
        lost = rows[~self.keeps[kind]]
        self.unsaved[lost] = self.draining[lost] = self.position[lost] = 0.0
        self.recovering[rows] = self.recovery_s[kind]
        if self.tracks_nodes:
            gone = rows[self.replaces[kind]]
            away_s = self.generator.standard_exponential(len(gone)) * self.campaign.repair_s
            self.back_at[gone, self.back_at[gone].argmin(axis=1)] = self.now[gone] + away_s

    def _progress(self) -> Floats:
        """Useful time so far, safe or not."""
        return self.saved + self.draining + self.unsaved

    def _spike(self, spiked: Bools) -> None:
        """Go back to the last checkpoint that is old enough; the first step of the training always is."""
        spikes, interval_s = self.campaign.spikes, self.campaign.interval_s
        if math.isinf(interval_s):
            kept = np.zeros(len(spiked))
        else:
            cycles = np.maximum(np.ceil((spikes.rollback_s - self.unsaved) / interval_s), 0.0)
            kept = np.maximum(self.saved + self.draining - cycles * interval_s, 0.0)
        self.saved = np.where(spiked, kept, self.saved)
        for name in ("unsaved", "draining", "position"):
            setattr(self, name, np.where(spiked, 0.0, getattr(self, name)))
        self.recovering = np.where(spiked, spikes.recovery_s, self.recovering)

    def _kinds(self, count: int) -> NDArray[np.int64]:
        """Classes of the failures that happen, drawn by their rates."""
        found: NDArray[np.int64] = np.searchsorted(self.up_to, self.generator.random(count), side="right")
        return np.minimum(found, len(self.up_to) - 1)

    def _remove(self, is_done: Bools) -> None:
        done = self.index[is_done]
        self.found.elapsed_s[done] = self.now[is_done]
        self.found.useful_s[done] = self._progress()[is_done]
        self.found.num_failures[done] = self.failures[is_done]
        going = ~is_done
        for name in (
            "now",
            "saved",
            "draining",
            "unsaved",
            "position",
            "recovering",
            "slow_until",
            "back_at",
            "failures",
            "index",
        ):
            setattr(self, name, getattr(self, name)[going])


class _RecordedHistory(_HistoryColumns):
    """A single history that keeps its periods."""

    def __init__(self, campaign: Campaign, count: int, generator: np.random.Generator, horizon_s: float, target_s: float) -> None:
        super().__init__(campaign, count, generator, horizon_s, target_s)
        self.stretches: list[Stretch] = []
        self._kind = 0

    def _record(self, runs: Bools, waits: Bools, rate: Floats, step: Floats) -> None:
        state = "runs" if runs[0] else "waits" if waits[0] else "recovers"
        end_s, pace = float(self.now[0]), float(rate[0]) if runs[0] else 0.0
        start_s = end_s - float(step[0])
        last = self.stretches[-1] if self.stretches else None
        if last is not None and (last.state, last.rate, last.ended_by) == (state, pace, None):
            start_s = self.stretches.pop().start_s
        elif last is not None:
            start_s = last.end_s
        self.stretches.append(Stretch(start_s, end_s, state, pace))

    def _kinds(self, count: int) -> NDArray[np.int64]:
        found = super()._kinds(count)
        self._kind = int(found[0])
        return found

    def _fail(self, failed: Bools) -> None:
        before_s = float(self._progress()[0])
        super()._fail(failed)
        if failed[0]:
            self._tell(self.campaign.classes[self._kind].name, before_s)

    def _spike(self, spiked: Bools) -> None:
        before_s = float(self._progress()[0])
        super()._spike(spiked)
        if spiked[0]:
            self._tell("loss_spike", before_s)

    def _tell(self, name: str, before_s: float) -> None:
        self.stretches[-1] = replace(self.stretches[-1], ended_by=name, repeated_s=before_s - float(self._progress()[0]))
