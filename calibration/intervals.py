"""Intervals from left-out errors, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.groups import model_kind
from calibration.run_records import RunRecord
from cost_models.workload import Workload

NOMINAL_COVERAGE = 0.8
POOLED_BELOW = 20  # runs of a kind under which the family's other runs speak too
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


def error_bands(records: Sequence[RunRecord], left_out_log_errors: Sequence[float]) -> tuple[ErrorBand, ...]:
    """Conformal quantiles of each kind; a kind with fewer than ``POOLED_BELOW`` runs borrows the widths of all.

    With n errors the quantile is taken at the (n + 1)-th fraction [vovk2005], so that small samples give wide bands.
    """
    kinds = np.array([model_kind(r.workload) for r in records])
    signed = -np.asarray(left_out_log_errors, dtype=np.float64)
    pooled = _band("all", signed)
    bands = [pooled]
    for kind in dict.fromkeys(kinds.tolist()):
        own = _band(kind, signed[kinds == kind])
        if own.num_runs < POOLED_BELOW:
            own = ErrorBand(kind, min(own.low, pooled.low), max(own.high, pooled.high), own.num_runs)
        bands.append(own)
    return tuple(bands)


def _band(kind: str, signed: np.ndarray) -> ErrorBand:
    n = len(signed)
    tail = (1.0 - NOMINAL_COVERAGE) / 2.0
    rank = min(max((n + 1) * (1.0 - tail) / n, 0.0), 1.0)
    return ErrorBand(kind, float(np.quantile(signed, 1.0 - rank)), float(np.quantile(signed, rank)), n)


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
