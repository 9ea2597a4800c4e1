"""Intervals from left-out errors, and what they rest on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.groups import model_kind
from calibration.run_records import RunRecord
from cost_models.workload import Workload

Floats = NDArray[np.float64]

LEARNING_PRECISIONS = ("bf16", "fp16", "fp32")  # 8-bit matmuls cover linear layers only, by recipes that differ
NOMINAL_COVERAGE = 0.8
POOLED_BELOW = 20  # runs of a kind under which the family's other runs speak too
QUANTILES_FROM = 9  # fewest errors whose outermost hold 80 % of further ones [vovk2005]
WIDER_PER_DOUBLING = 0.05  # of the interval, for every doubling of devices beyond the largest measured run
WIDER_UNSEEN = 1.5  # for hardware or a stack that no measured run covers


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
    """Interval of a step time [s], the runs behind it, and what it extrapolates."""

    low_s: float
    high_s: float
    num_runs: int
    max_devices: int | None
    extrapolated: tuple[str, ...]


def error_bands(
    records: Sequence[RunRecord],
    left_out_log_errors: Sequence[float],
    groups: Sequence[Hashable],
    wider: Sequence[ErrorBand] = (),
) -> tuple[ErrorBand, ...]:
    """Conformal quantiles of each kind of model, and of all under ``all``.

    ``groups`` says which runs were left out together. Their errors come together too, so the sample has n = number of groups:
    the quantile is taken at the (n + 1)-th fraction [vovk2005], and few groups give wide bands. A kind with fewer than
    ``POOLED_BELOW`` runs reaches at least as far as all runs together, and bands of fewer than ``QUANTILES_FROM`` groups at
    least as far as the bands ``wider`` of the same kind.
    """
    kinds = np.array([model_kind(r.workload) for r in records])
    signed = -np.asarray(left_out_log_errors, dtype=np.float64)
    labels = np.unique([str(group) for group in groups], return_inverse=True)[1]
    pooled = _band("all", signed, labels, wider)
    bands = [pooled]
    for kind in dict.fromkeys(kinds.tolist()):
        own = _band(kind, signed[kinds == kind], labels[kinds == kind], wider)
        bands.append(_reaching(own, [replace(pooled, kind=kind)]) if own.num_runs < POOLED_BELOW else own)
    return (*bands, *(band for band in wider if band.kind not in {b.kind for b in bands}))


def _band(kind: str, signed: Floats, labels: NDArray[np.int64], wider: Sequence[ErrorBand]) -> ErrorBand:
    n = len(np.unique(labels))
    tail = (1.0 - NOMINAL_COVERAGE) / 2.0
    rank = min((n + 1) * (1.0 - tail) / n, 1.0)
    band = ErrorBand(kind, float(np.quantile(signed, 1.0 - rank)), float(np.quantile(signed, rank)), len(signed))
    return _reaching(band, wider) if n < QUANTILES_FROM else band


def _reaching(band: ErrorBand, others: Sequence[ErrorBand]) -> ErrorBand:
    same = [other for other in others if other.kind == band.kind]
    return replace(
        band, low=min([band.low, *(other.low for other in same)]), high=max([band.high, *(other.high for other in same)])
    )


def left_out_inside(
    records: Sequence[RunRecord], left_out_log_errors: Sequence[float], groups: Sequence[Hashable]
) -> NDArray[np.bool_]:
    """Whether each run lies inside a band that the runs of all other groups gave. ``[run]``"""
    inside = np.zeros(len(records), dtype=bool)
    for group in dict.fromkeys(groups):
        rest = [i for i, other in enumerate(groups) if other != group]
        if not rest:
            continue
        others = error_bands([records[i] for i in rest], [left_out_log_errors[i] for i in rest], [groups[i] for i in rest])
        bands = {band.kind: band for band in others}
        for i in (i for i, other in enumerate(groups) if other == group):
            band = bands.get(model_kind(records[i].workload), bands["all"])
            inside[i] = min(band.low, 0.0) <= -left_out_log_errors[i] <= max(band.high, 0.0)
    return inside


def coverage_of(records: Sequence[RunRecord]) -> tuple[Coverage, ...]:
    """What the records cover, by hardware, stack and kind."""
    table: dict[tuple[str, str, str], list[RunRecord]] = {}
    for record in records:
        workload = record.workload
        key = (workload.cluster.profile.name, workload.software.stack, model_kind(workload))
        table.setdefault(key, []).append(record)
    return tuple(
        Coverage(
            *key,
            num_runs=len(runs),
            max_devices=max(r.workload.cluster.num_devices for r in runs),
            max_seq_length=max(r.workload.training.seq_length for r in runs),
        )
        for key, runs in sorted(table.items())
    )


def merged_coverage(first: Sequence[Coverage], second: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """What two sets of runs cover together; a run in both counts twice."""
    table = {(c.hardware, c.stack, c.kind): c for c in first}
    for more in second:
        key = (more.hardware, more.stack, more.kind)
        known = table.get(key)
        table[key] = (
            more
            if known is None
            else Coverage(
                *key,
                num_runs=known.num_runs + more.num_runs,
                max_devices=max(known.max_devices, more.max_devices),
                max_seq_length=max(known.max_seq_length, more.max_seq_length),
            )
        )
    return tuple(table[key] for key in sorted(table))


def interval(workload: Workload, step_time_s: float, bands: Sequence[ErrorBand], coverage: Sequence[Coverage]) -> Interval:
    """80 % interval of a step time from the bands of its kind, widened where no measured run comes near.

    Says aloud what it extrapolates: hardware, software or kind without a run, more devices or longer sequences than any.
    """
    kind = model_kind(workload)
    hardware, stack = workload.cluster.profile.name, workload.software.stack
    by_kind = {band.kind: band for band in bands}
    band = by_kind.get(kind) or by_kind["all"]
    own = [c for c in coverage if (c.hardware, c.stack, c.kind) == (hardware, stack, kind)]
    extrapolated, factor = [], 1.0
    if not own:
        extrapolated.append(f"no measured run of a {kind} model with {stack} on {hardware}")
        factor *= WIDER_UNSEEN
    precision = workload.training.precision
    if precision not in LEARNING_PRECISIONS:
        extrapolated.append(f"no run in {precision} taught the constants")
        factor *= WIDER_UNSEEN
    nearest = own or [c for c in coverage if c.kind == kind] or list(coverage)
    largest = max((c.max_devices for c in nearest), default=1)
    longest = max((c.max_seq_length for c in nearest), default=1)
    devices = workload.cluster.num_devices
    if devices > largest:
        extrapolated.append(f"no measured run above {largest:,} devices")
        factor *= 1.0 + WIDER_PER_DOUBLING * float(np.log2(devices / largest))
    if workload.training.seq_length > longest:
        extrapolated.append(f"no measured run above a sequence of {longest:,} tokens")
        factor *= 1.0 + WIDER_PER_DOUBLING * float(np.log2(workload.training.seq_length / longest))
    return Interval(
        low_s=step_time_s * float(np.exp(min(band.low, 0.0) * factor)),
        high_s=step_time_s * float(np.exp(max(band.high, 0.0) * factor)),
        num_runs=sum(c.num_runs for c in own),
        max_devices=max((c.max_devices for c in own), default=None),
        extrapolated=tuple(extrapolated),
    )
