"""Error bands of predicted memory peaks, and their evidence.

No part of the memory model is fitted to runs, so that every error is a left-out error. All families share the formulas: the
bands rest on the peaks of all of them, and a job's stack and kind of model decide how far it extrapolates.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.intervals.step_time import (
    Coverage,
    ErrorBand,
    coverage_of,
    each_end,
    error_bands,
    wider_beyond,
)
from calibration.intervals.widening import MECHANISM, WIDER_UNSEEN, Step, quantile_of_ratios
from calibration.splits.groups import architecture
from calibration.splits.mechanisms import kept_mechanisms
from cost_models.constants import Constants, PeakSpread, prior_constants
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

if TYPE_CHECKING:
    from calibration.records.training import RunRecord


@dataclass(frozen=True)
class MemoryErrors:
    """Runs that publish a peak, with ln(predicted / measured) of each on its own basis; errors of one group are correlated."""

    records: tuple[RunRecord, ...]
    log_errors: tuple[float, ...]

    @property
    def groups(self) -> list[Hashable]:
        """The architecture of each run."""
        return [architecture(record) for record in self.records]


@dataclass(frozen=True)
class MemoryEvidence:
    """The spread of a job's peaks, the number of measured peaks of its stack and kind, and the extrapolated dimensions."""

    spread: PeakSpread
    num_runs: int
    max_devices: int | None
    extrapolated: tuple[str, ...]


def family_priors(workload: Workload) -> Constants:
    """The constants before any fit; no fit moves the constants of memory."""
    return prior_constants(workload.cluster.profile.family)


def memory_kind(workload: Workload) -> str:
    """``moe`` or ``dense``: the kinds that have peaks in both families."""
    return "dense" if workload.model.moe is None else "moe"


def memory_bands(errors: MemoryErrors, wider: Sequence[ErrorBand] = ()) -> tuple[ErrorBand, ...]:
    """Conformal tenths of ln(measured / predicted) of each kind; ``wider`` serves kinds without a run.

    Each end has its own quantile: whether a plan fits depends on the upper one alone.
    """
    if not errors.records:
        return tuple(wider)
    return error_bands(errors.records, errors.log_errors, errors.groups, wider, kind_of=memory_kind, ends=each_end)


def left_out_memory_bands(errors: MemoryErrors) -> list[ErrorBand]:
    """The band of each run's kind from all other architectures; zero width without others. ``[run]``"""
    found = [ErrorBand("all", 0.0, 0.0, 0)] * len(errors.records)
    for group in dict.fromkeys(errors.groups):
        own = [other == group for other in errors.groups]
        rest = [row for row, chosen in zip(zip(errors.records, errors.log_errors, strict=True), own, strict=True) if not chosen]
        if not rest:
            continue
        bands = {band.kind: band for band in memory_bands(MemoryErrors(*zip(*rest, strict=True)))}
        for i in np.flatnonzero(own).tolist():
            found[i] = bands.get(memory_kind(errors.records[i].workload), bands["all"])
    return found


def memory_coverage(errors: MemoryErrors) -> tuple[Coverage, ...]:
    """Hardware, stacks and kinds of model with measured peaks."""
    return coverage_of(errors.records, memory_kind)


def memory_mechanisms(errors: MemoryErrors) -> tuple[str, ...]:
    """What decides kept bytes in measured peaks, sorted."""
    return tuple(sorted({each for record in errors.records for each in kept_mechanisms(record.workload)}))


def memory_step(errors: MemoryErrors) -> Step:
    """Factor on a band for a job whose kept bytes no peak has: errors of the peaks with one mechanism over those of all others.

    No constant of memory is fitted, so that these are errors of a mechanism's first runs. Architectures have equal weight.
    """
    shapes, wrong = [str(group) for group in errors.groups], np.abs(errors.log_errors)
    used = [kept_mechanisms(record.workload) for record in errors.records]
    ratios, runs = [], 0
    for mechanism in memory_mechanisms(errors):
        has = np.array([mechanism in each for each in used])
        if has.all():
            continue
        with_it, without = (_mean_by_shape(wrong[own], np.array(shapes)[own]) for own in (has, ~has))
        if without > 0.0:
            ratios.append(with_it / without)
            runs += int(has.sum())
    return Step(MECHANISM, quantile_of_ratios(ratios), len(ratios), runs)


def _mean_by_shape(errors: NDArray[np.float64], shapes: NDArray[np.str_]) -> float:
    """Mean of errors of which each shape has the same weight."""
    _, index, counts = np.unique(shapes, return_inverse=True, return_counts=True)
    return float(np.average(errors, weights=1.0 / counts[index]))


def memory_evidence(
    workload: Workload,
    bands: Sequence[ErrorBand],
    coverage: Sequence[Coverage],
    mechanisms: Collection[str] = (),
    steps: Sequence[Step] = (),
) -> MemoryEvidence:
    """The band of a workload's kind, wider for a stack or a mechanism without measured peaks and beyond the measured clusters.

    All stacks share the arithmetic of bytes, so that the largest cluster and the longest sequence of all peaks count.
    ``mechanisms`` are those of the peaks; empty: not known, and none is missed.
    """
    kind, stack = memory_kind(workload), workload.software.stack
    by_kind = {band.kind: band for band in bands}
    band = by_kind.get(kind) or by_kind.get("all") or ErrorBand("all", 0.0, 0.0, 0)
    own = [c for c in coverage if (c.stack, c.kind) == (stack, kind)]
    extrapolated, squares = [], 1.0
    if not own:
        extrapolated.append(Sentence("no measured peak of a {} model with {}", Sentence.whole(kind), stack))
        squares += WIDER_UNSEEN**2 - 1.0
    unseen = sorted(kept_mechanisms(workload) - set(mechanisms)) if mechanisms else []
    if unseen:
        extrapolated.append(Sentence("no measured peak with {}", joined(", ", unseen)))
        squares += next((step.factor for step in steps if step.kind == MECHANISM), WIDER_UNSEEN) ** 2 - 1.0
    factor = float(np.sqrt(squares))  # independent errors add in squares
    largest = max((c.max_devices for c in coverage), default=1)
    longest = max((c.max_seq_length for c in coverage), default=1)
    if workload.cluster.num_devices > largest:
        extrapolated.append(Sentence("no measured peak above {:,} devices", largest))
        factor *= wider_beyond(workload.cluster.num_devices, largest)
    if workload.training.seq_length > longest:
        extrapolated.append(Sentence("no measured peak above a sequence of {:,} tokens", longest))
        factor *= wider_beyond(workload.training.seq_length, longest)
    return MemoryEvidence(
        spread=PeakSpread(min(band.low, 0.0) * factor, max(band.high, 0.0) * factor),
        num_runs=sum(c.num_runs for c in own),
        max_devices=max((c.max_devices for c in own), default=None),
        extrapolated=tuple(extrapolated),
    )
