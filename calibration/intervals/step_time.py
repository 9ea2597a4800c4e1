"""Intervals of step times from left-out errors, and their evidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.intervals.shared_errors import effective_number, shared_fraction
from calibration.intervals.widening import (
    MECHANISM,
    NOMINAL_COVERAGE,
    Step,
    Taken,
    cell,
    factor_of,
    steps_taken,
    weighted_quantile,
)
from calibration.splits.groups import model_kind
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

Floats = NDArray[np.float64]

LEARNING_PRECISIONS = ("bf16", "fp16", "fp32")  # 8-bit matmuls cover linear layers only, by recipes that differ
PRIOR_GROUPS = 5.0  # weight, in groups, of the scale of all kinds in a kind's own; 3 to 8 cover alike [runs-fit]
SMALLEST_SCALE = 1e-9  # scale of errors that are all zero
QUANTILES_FROM = 9  # fewest errors whose outermost hold 80 % of further ones [vovk2005]
WIDER_PER_DOUBLING = 0.05  # widening for every doubling of devices beyond the largest measured run


@dataclass(frozen=True)
class Coverage:
    """Measured runs of one hardware profile, software stack and kind of model."""

    hardware: str
    stack: str
    kind: str
    num_runs: int
    max_devices: int
    max_seq_length: int


@dataclass(frozen=True)
class ErrorBand:
    """Quantiles of ln(measured / predicted) over the left-out errors of one kind of model."""

    kind: str
    low: float
    high: float
    num_runs: int


@dataclass(frozen=True)
class Interval:
    """Interval of a step time [s], the runs behind it, and the extrapolated dimensions."""

    low_s: float
    high_s: float
    num_runs: int
    max_devices: int | None
    extrapolated: tuple[str, ...]


def both_ends(signed: Floats, weights: Floats) -> tuple[float, float]:
    """Ends of an interval that holds ``NOMINAL_COVERAGE`` of further errors, however those outside fall on its sides.

    One quantile is taken of all errors over the root mean square of their side [lei2018]: it rests on twice the errors that a
    quantile of either side has. The scale of a side is known to one part in its groups, which widens that end.

    Parameters
    ----------
    signed, weights : ``[run]``
    """
    sides = tuple(np.maximum(side, 0.0) for side in (-signed, signed))
    scales = [max(float(np.average(side**2, weights=weights)) ** 0.5, SMALLEST_SCALE) for side in sides]
    quantile = _further(sides[0] / scales[0] + sides[1] / scales[1], weights, NOMINAL_COVERAGE)
    groups = [max(float(weights[side > 0.0].sum()), 1.0) for side in sides]
    low, high = (quantile * scale * _wider_for(number) for scale, number in zip(scales, groups, strict=True))
    return -low, high


def each_end(signed: Floats, weights: Floats) -> tuple[float, float]:
    """Ends beyond each of which the same share of further errors is, together 1 - ``NOMINAL_COVERAGE``."""
    share = (1.0 + NOMINAL_COVERAGE) / 2.0
    return -_further(-signed, weights, share), _further(signed, weights, share)


def error_bands(
    records: Sequence[RunRecord],
    left_out_log_errors: Sequence[float],
    groups: Sequence[Hashable],
    wider: Sequence[ErrorBand] = (),
    kind_of: Callable[[Workload], str] = model_kind,
    clusters: Sequence[Hashable] | None = None,
    ends: Callable[[Floats, Floats], tuple[float, float]] = both_ends,
) -> tuple[ErrorBand, ...]:
    """Conformal quantiles of each kind of model, by ``kind_of``, and of all under ``all``.

    ``groups`` says which runs were left out together. Errors of one group are correlated, so every group has the same weight,
    whatever the number of its runs; one more such weight is beyond the largest error [dunn2023]. Groups of one of ``clusters``
    share the part of their errors that ``shared_fraction`` measures, and weigh and count by ``effective_number``. All kinds share
    the two ends, by ``ends``, of errors over the scale of their kind [lei2018]. The scale is the kind's mean error, shrunk
    towards the mean of all as if by ``PRIOR_GROUPS`` more groups. The scale of K groups is uncertain by one part in K, which
    widens the band by (1 + 1/K)^(1/2). With fewer than ``QUANTILES_FROM`` groups in all, quantiles reach to the largest errors; a
    kind with fewer is at least as wide as its kind in ``wider``.
    """
    signed = -np.asarray(left_out_log_errors, dtype=np.float64)
    kinds = np.array([kind_of(r.workload) for r in records])
    labels, sizes = np.unique([str(group) for group in groups], return_inverse=True, return_counts=True)[1:]
    shared = 0.0 if clusters is None else shared_fraction(signed, groups, clusters)
    weights = _shares(groups, clusters, shared) / sizes[labels]
    members = {"all": np.ones(len(kinds), dtype=bool)} | {kind: kinds == kind for kind in dict.fromkeys(kinds.tolist())}
    num_groups = {kind: len(np.unique(labels[own])) for kind, own in members.items()}
    counted = {kind: _counted(groups, clusters, own, shared) for kind, own in members.items()}
    pooled = _scale(signed, weights)
    scales = {
        kind: float(np.exp((n * np.log(_scale(signed[own], weights[own])) + PRIOR_GROUPS * np.log(pooled)) / (n + PRIOR_GROUPS)))
        for (kind, own), n in zip(members.items(), counted.values(), strict=True)
    }
    relative = signed / np.array([scales[kind] for kind in kinds.tolist()])
    low, high = ends(relative, weights)
    bands = []
    for kind, own in members.items():
        reach = scales[kind] * _wider_for(counted[kind])
        band = ErrorBand(kind, low * reach, high * reach, int(own.sum()))
        bands.append(_reaching(band, wider) if num_groups[kind] < QUANTILES_FROM else band)
    return (*bands, *(band for band in wider if band.kind not in scales))


def _shares(groups: Sequence[Hashable], clusters: Sequence[Hashable] | None, shared: float) -> Floats:
    """Weight of each run's group: its part of the effective number of groups in its cluster. ``[run]``"""
    if clusters is None:
        return np.ones(len(groups))
    together = _together(groups, clusters)
    return np.array([effective_number(together[cluster], shared) / together[cluster] for cluster in clusters])


def _counted(groups: Sequence[Hashable], clusters: Sequence[Hashable] | None, own: NDArray[np.bool_], shared: float) -> float:
    """Effective number of groups of some runs."""
    chosen = np.flatnonzero(own).tolist()
    some = [groups[i] for i in chosen]
    within = some if clusters is None else [clusters[i] for i in chosen]
    return float(sum(effective_number(number, shared) for number in _together(some, within).values()))


def _together(groups: Sequence[Hashable], clusters: Sequence[Hashable]) -> Counter[Hashable]:
    """Groups of each cluster."""
    return Counter(cluster for cluster, _ in dict.fromkeys(zip(clusters, groups, strict=True)))


def _scale(signed: Floats, weights: Floats) -> float:
    """Mean absolute error; every group has the same weight."""
    return max(float(np.average(np.abs(signed), weights=weights)), SMALLEST_SCALE)


def _wider_for(num_groups: float) -> float:
    """Factor on a band for a scale that so many groups tell: known to one part in as many."""
    return math.sqrt(1.0 + 1.0 / num_groups)


def _further(values: Floats, weights: Floats, share: float) -> float:
    """What ``share`` of further groups stay below, or the largest value if there are too few groups."""
    return weighted_quantile(values, weights, share, beyond=1.0)


def _reaching(band: ErrorBand, others: Sequence[ErrorBand]) -> ErrorBand:
    same = [other for other in others if other.kind == band.kind]
    return replace(
        band, low=min([band.low, *(other.low for other in same)]), high=max([band.high, *(other.high for other in same)])
    )


def band_of(bands: Sequence[ErrorBand], kind: str) -> ErrorBand:
    """The band of a kind. One without a run has that of all, with a scale that is known as if from one group."""
    by_kind = {band.kind: band for band in bands}
    if kind in by_kind:
        return by_kind[kind]
    every, wider = by_kind["all"], _wider_for(1.0)
    return replace(every, low=every.low * wider, high=every.high * wider)


def over_band(records: Sequence[RunRecord], log_errors: Floats, bands: Sequence[ErrorBand]) -> Floats:
    """Size of each ln(predicted / measured) over the end of its band on that side: above one, the measured time is outside.

    NaN stays. ``[run]``
    """
    own = [band_of(bands, model_kind(record.workload)) for record in records]
    ends = [band.low if error > 0.0 else band.high for band, error in zip(own, log_errors.tolist(), strict=True)]
    return np.abs(log_errors) / np.maximum(np.abs(ends), SMALLEST_SCALE)


def coverage_of(records: Sequence[RunRecord], kind_of: Callable[[Workload], str] = model_kind) -> tuple[Coverage, ...]:
    """Hardware, stacks and kinds of model with measured runs."""
    own = []
    for workload in (record.workload for record in records):
        cluster, stack, length = workload.cluster, workload.software.stack, workload.training.seq_length
        own.append(Coverage(cluster.profile.name, stack, kind_of(workload), 1, cluster.num_devices, length))
    return merged_coverage(own)


def merged_coverage(*sets: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """Coverage of several sets of runs; a run in two of them counts twice."""
    table: dict[tuple[str, str, str], list[Coverage]] = {}
    for one in chain(*sets):
        table.setdefault((one.hardware, one.stack, one.kind), []).append(one)
    return tuple(
        Coverage(
            *key,
            num_runs=sum(one.num_runs for one in same),
            max_devices=max(one.max_devices for one in same),
            max_seq_length=max(one.max_seq_length for one in same),
        )
        for key, same in sorted(table.items())
    )


def wider_beyond(value: int, largest: int) -> float:
    """Factor on the width of a band for a value above the largest measured one."""
    return 1.0 + WIDER_PER_DOUBLING * float(np.log2(value / largest))


def slower_end(ratio: float, doubt_fraction: float) -> float:
    """The upper end of an interval over its prediction, with a doubt that can only make the step longer by this fraction.

    The two are independent, so they add in squares.
    """
    return float(np.exp(np.hypot(np.log(ratio), np.log1p(doubt_fraction))))


def faster_end(ratio: float, doubt_fraction: float) -> float:
    """The lower end of an interval over its prediction, with a doubt that can only make the step shorter by this fraction."""
    return float(np.exp(-np.hypot(np.log(ratio), np.log1p(-doubt_fraction))))


def interval(
    workload: Workload,
    step_time_s: float,
    bands: Sequence[ErrorBand],
    coverage: Sequence[Coverage],
    steps: Sequence[Step] = (),
    unseen: Sequence[Taken] = (),
    doubt: tuple[float, float] = (0.0, 0.0),
) -> Interval:
    """80 % interval of a step time from the bands of its kind, widened for each step beyond the measured runs.

    ``unseen`` are steps of a plan, such as a switch that no run used; ``doubt`` is one more error of the logarithm, downwards
    and upwards, which adds in squares. The interval names what it extrapolates: hardware,
    software, precision or kind without a run, more devices or longer sequences than any run, and factors that the job assumes.
    """
    here = cell(workload)
    band = band_of(bands, here[-1])
    own = [c for c in coverage if (c.hardware, c.stack, c.kind) == here]
    taken = steps_taken(workload, [(c.hardware, c.stack, c.kind) for c in coverage])
    precision = workload.training.precision
    if precision not in LEARNING_PRECISIONS:
        taken.append(Taken(MECHANISM, Sentence("mechanism unseen: no run in {} taught the constants", precision)))
    taken += unseen
    factor = factor_of(taken, steps)
    extrapolated = [step.sentence for step in taken]
    for part, assumed in (("cluster", workload.cluster.time_factor), ("software", workload.software.time_factor)):
        if assumed != 1.0:
            extrapolated.append(Sentence("{}.time_factor = {:g} is assumed, not measured by these runs", part, assumed))
    nearest = own or [c for c in coverage if c.kind == here[-1]] or list(coverage)
    largest = max((c.max_devices for c in nearest), default=1)
    longest = max((c.max_seq_length for c in nearest), default=1)
    devices = workload.cluster.num_devices
    if devices > largest:
        extrapolated.append(Sentence("no measured run above {:,} devices", largest))
        factor *= wider_beyond(devices, largest)
    if workload.training.seq_length > longest:
        extrapolated.append(Sentence("no measured run above a sequence of {:,} tokens", longest))
        factor *= wider_beyond(workload.training.seq_length, longest)
    return Interval(
        low_s=step_time_s * float(np.exp(-np.hypot(min(band.low, 0.0) * factor, doubt[0]))),
        high_s=step_time_s * float(np.exp(np.hypot(max(band.high, 0.0) * factor, doubt[1]))),
        num_runs=sum(c.num_runs for c in own),
        max_devices=max((c.max_devices for c in own), default=None),
        extrapolated=tuple(extrapolated),
    )
