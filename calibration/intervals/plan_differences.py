"""Errors of the predicted difference of two plans of one job.

Errors of similar plans are alike, so that differences are more certain than times. The error is measured with left-out errors
on groups of runs that trained one job in several ways. A plan that is predicted slower by less is not known to be slower.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.intervals.step_time import PRIOR_GROUPS, QUANTILES_FROM, SMALLEST_SCALE
from calibration.intervals.widening import NOMINAL_COVERAGE
from calibration.splits.groups import architecture, model_kind
from calibration.validation.plan_order import plan_key
from documents.late_methods import dataclass

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

Floats = NDArray[np.float64]

CONFIDENCE = (
    NOMINAL_COVERAGE  # probability of the right order from which two plans are no longer a tie; the same as for intervals
)
CLOSE_LOG = 0.15  # plans predicted further apart are no ties, and the errors of their differences are larger (ADR 18)
_BOTH_SIGNS = 2.0 * CONFIDENCE - 1.0  # the error may favour either plan: quantile of absolute errors
_ALL = "all"


@dataclass(frozen=True)
class PlanPair:
    """Two plans of a job: the predicted ln(slower / faster), at least 0, and its excess over the measured one."""

    predicted_log: float
    log_error: float

    @property
    def is_in_order(self) -> bool:
        """Whether the plan predicted slower was measured slower."""
        return self.log_error < self.predicted_log


@dataclass(frozen=True)
class JobPairs:
    """The pairs of plans of one job that are predicted within ``CLOSE_LOG`` of each other."""

    kind: str
    architecture: Hashable
    pairs: tuple[PlanPair, ...]


@dataclass(frozen=True)
class PairedError:
    """The paired error of a kind of model: ln(slower / faster) below which the order is right with less than ``CONFIDENCE``.

    It rests on ``num_groups`` jobs that were measured under several plans, with ``num_pairs`` pairs among them.
    """

    kind: str
    log_error: float
    num_groups: int
    num_pairs: int


def job_pairs(records: Sequence[RunRecord], log_errors: Sequence[float]) -> tuple[JobPairs, ...]:
    """Jobs with at least one such pair; ``log_errors`` are ln(predicted / measured), best from constants that saw no such run.

    Runs of one plan are repetitions and form no pair.
    """
    jobs: dict[Hashable, list[int]] = defaultdict(list)
    for row, record in enumerate(records):
        if record.measured.step_time_s and not record.suspect:
            jobs[_job(record)].append(row)
    found = []
    for rows in jobs.values():
        pairs = [
            _pair(records[first], log_errors[first], records[second], log_errors[second])
            for first, second in combinations(rows, 2)
            if records[first].strategy != records[second].strategy
        ]
        close = tuple(pair for pair in pairs if pair.predicted_log <= CLOSE_LOG)
        if close:
            found.append(JobPairs(model_kind(records[rows[0]].workload), architecture(records[rows[0]]), close))
    return tuple(found)


def _job(record: RunRecord) -> Hashable:
    """A published sweep may hold several jobs."""
    workload = record.workload
    cluster = workload.cluster
    return plan_key(record), workload.model, workload.training, workload.software, cluster.profile.name, cluster.num_devices


def _pair(first: RunRecord, first_error: float, second: RunRecord, second_error: float) -> PlanPair:
    first_s, second_s = first.measured.step_time_s, second.measured.step_time_s
    assert first_s is not None
    assert second_s is not None
    error = first_error - second_error
    predicted = error + float(np.log(first_s / second_s))
    return PlanPair(abs(predicted), error if predicted >= 0 else -error)


def paired_errors(
    own: Sequence[JobPairs], others: Sequence[JobPairs] = (), wider: Sequence[PairedError] = ()
) -> tuple[PairedError, ...]:
    """The paired error of each kind of model in ``own``, and of all of them under ``all``.

    Every job has the same weight, whatever the number of its pairs; one more such weight is put beyond the largest error. All
    kinds share one quantile, also those of ``others`` (another family's jobs): that of absolute errors over the scale of their
    kind. The scale is the kind's mean, shrunk towards the mean of all as if by ``PRIOR_GROUPS`` more jobs. The scale of K jobs
    is uncertain by one part in K, which widens it by (1 + 1/K)^(1/2). A kind with fewer than ``QUANTILES_FROM`` jobs is at
    least as wide as its kind in ``wider``.
    """
    if not own:
        return tuple(wider)
    jobs = [*own, *others]
    kinds = [(place < len(own), job.kind) for place, job in enumerate(jobs)]
    sizes = [np.abs([pair.log_error for pair in job.pairs]) for job in jobs]
    means = np.array([size.mean() for size in sizes])
    counts = Counter(kinds)
    scales = {key: _drawn(means[[kind == key for kind in kinds]], means) for key in counts}
    relative = np.concatenate([size / scales[kind] for size, kind in zip(sizes, kinds, strict=True)])
    weights = np.concatenate([np.full(len(size), 1.0 / len(size)) for size in sizes])
    quantile = _quantile(relative, weights)
    chosen = {_ALL: list(own)} | {kind: [job for job in own if job.kind == kind] for _, kind in counts if counts[True, kind]}
    known = {error.kind: error for error in wider}
    found = {}
    for kind, members in chosen.items():
        scale = _drawn(means[: len(own)], means) if kind == _ALL else scales[True, kind]
        log_error = quantile * scale * (1.0 + 1.0 / len(members)) ** 0.5
        error = PairedError(kind, log_error, len(members), sum(len(job.pairs) for job in members))
        if len(members) < QUANTILES_FROM and kind in known:
            error = replace(error, log_error=max(log_error, known[kind].log_error))
        found[kind] = error
    return tuple(found.values()) + tuple(error for error in wider if error.kind not in found)


def left_out_limits(own: Sequence[JobPairs], others: Sequence[JobPairs] = ()) -> list[float]:
    """The paired error that each job of ``own`` gets from the jobs of all other architectures."""
    limits: dict[Hashable, dict[str, float]] = {}
    for shape in dict.fromkeys(job.architecture for job in own):
        rest = [job for job in own if job.architecture != shape]
        limits[shape] = {error.kind: error.log_error for error in paired_errors(rest, others)}
    return [limits[job.architecture].get(job.kind, limits[job.architecture].get(_ALL, np.nan)) for job in own]


def _drawn(own: Floats, everything: Floats) -> float:
    """The mean of a kind's jobs, shrunk towards the mean of all."""
    scale, pooled = (max(float(means.mean()), SMALLEST_SCALE) for means in (own, everything))
    return float(np.exp((len(own) * np.log(scale) + PRIOR_GROUPS * np.log(pooled)) / (len(own) + PRIOR_GROUPS)))


def _quantile(sizes: Floats, weights: Floats) -> float:
    order = np.argsort(sizes)
    reached = np.cumsum(weights[order]) / (weights.sum() + 1.0)
    return float(sizes[order[min(int(np.searchsorted(reached, _BOTH_SIGNS - 1e-12)), len(sizes) - 1)]])
