"""All figures of docs/accuracy.md, computed from the runs and the shipped calibrations; no text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from calibration.files.calibrations import Calibration, shipped_calibration
from calibration.fitting.robust_fit import Floats
from calibration.intervals.memory import MemoryErrors, family_priors, left_out_memory_bands, memory_kind
from calibration.intervals.memory_errors import memory_errors
from calibration.intervals.step_time import ErrorBand
from calibration.leave_out.family_errors import ROLLING, SPLITS, LeftOut, inside_intervals, publication_inside, shipped_left_out
from calibration.procedure.calibrate import family_observations
from calibration.procedure.constants_left_out import Splits, splits_of
from calibration.records.training import RunRecord, read_run_records
from calibration.validation.plan_order import PlanGroup, plan_groups
from calibration.validation.predictions import predict, predicted_peak_bytes
from cost_models.constants import PeakSpread
from cost_models.memory.fit import FitRule, fit_rule
from cost_models.step.composition import estimate as closed_form
from cost_models.step.result import Estimate

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Errors:
    """Absolute values of predicted / measured - 1 over some runs; ``bias`` is the signed median."""

    count: int
    median: float
    mean: float
    p90: float
    bias: float

    @classmethod
    def of(cls, log_errors: Floats) -> Errors | None:
        errors = np.expm1(log_errors[~np.isnan(log_errors)])
        size = np.abs(errors)
        if not len(errors):
            return None
        quantiles = (float(np.median(size)), float(size.mean()), float(np.quantile(size, 0.9)), float(np.median(errors)))
        return cls(len(errors), *quantiles)


class FamilyAccuracy:
    """One hardware family's runs and their errors."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.calibration: Calibration = shipped_calibration(family)
        read = read_run_records(ROOT / "calibration/runs" / f"{family}.jsonl")
        self.records = [r for r in read if isinstance(r, RunRecord)]
        self.num_refused = len(read) - len(self.records)
        self.splits: Splits = splits_of(self.calibration, family_observations(self.records, family))
        self.used = [o.record for o in self.splits.fitted_model.observations]
        self.left_out: LeftOut = shipped_left_out(family)
        by_id = {record.id: record for record in self.records}
        if list(self.left_out.ids[: len(self.used)]) != [r.id for r in self.used] or not set(self.left_out.ids) <= set(by_id):
            raise ValueError(f"calibration/shipped/{family}_left_out.json is of other runs: run `make calibration`")
        self.judged = [by_id[name] for name in self.left_out.ids]  # runs that the fit used, then runs in other precisions

    def nested(self, split: str) -> Floats:
        """Log errors of the runs that the fit uses, under a split of nested leave-out."""
        return self.left_out.splits[split][: len(self.used)]

    @property
    def publication(self) -> Floats:
        """Log errors with every run of the same document left out of all tuning."""
        return self.nested("publication")

    @property
    def rolling(self) -> Floats:
        """Log errors of a fit to runs published in earlier half years; NaN where there are too few."""
        return self.nested(ROLLING)

    def chosen(self, wanted: Callable[[RunRecord], bool]) -> Mask:
        """Mask of the observations for which ``wanted`` is true."""
        return np.array([wanted(r) for r in self.used])

    def untaught(self, wanted: Callable[[RunRecord], bool], split: str = "publication") -> Errors | None:
        """Errors of runs in a precision that the fit does not use."""
        own = slice(len(self.used), None)
        return Errors.of(self.left_out.splits[split][own][[wanted(record) for record in self.judged[own]]])

    @cached_property
    def predictions(self) -> list[Estimate]:
        """Predicted step time of every readable record, with the shipped constants."""
        return [predict(record, self.calibration.constants)[0] for record in self.records]

    def both_fidelities(self, wanted: Callable[[RunRecord], bool]) -> tuple[Errors | None, Errors | None]:
        """Errors with the shipped constants, in closed form and simulated."""
        closed, simulated = [], []
        for record, found in zip(self.records, self.predictions, strict=True):
            measured_s = record.measured.step_time_s
            if measured_s and record.is_latest and not record.suspect and wanted(record):
                other = predict(record, self.calibration.constants, price=closed_form)[0]
                closed.append(np.log(float(other.step_time_s[0]) / measured_s))
                simulated.append(np.log(float(found.step_time_s[0]) / measured_s))
        return Errors.of(np.array(closed)), Errors.of(np.array(simulated))

    @cached_property
    def all_inside(self) -> Mask:
        """Mask of the runs, in any precision, inside the interval from the other publications."""
        return publication_inside(self.judged, self.left_out)

    @property
    def inside(self) -> Mask:
        """Mask for the runs that the fit uses."""
        return self.all_inside[: len(self.used)]

    def covered(self, split: str, wanted: Callable[[RunRecord], bool] = lambda _: True) -> tuple[int, float] | None:
        """Number of fitted runs that a split judges, and the share inside the interval from the others."""
        inside = self._inside_of[split][: len(self.used)][self.chosen(wanted)]
        judged = inside[~np.isnan(inside)]
        return (len(judged), float(judged.mean())) if len(judged) else None

    @cached_property
    def _inside_of(self) -> dict[str, Floats]:
        return {split: inside_intervals(self.judged, self.left_out, split) for split in SPLITS}

    def memory_errors(self) -> dict[str, Floats]:
        """predicted / measured - 1 of the peak, by kind of published peak."""
        table: dict[str, list[float]] = {}
        for record, found in zip(self.records, self.predictions, strict=True):
            measured = record.measured
            if measured.peak_memory_bytes and not record.suspect:
                if record.memory_year is not None:
                    found, _ = predict(record.of_memory, self.calibration.constants_of(record.workload))
                predicted = predicted_peak_bytes(found, measured)
                table.setdefault(measured.peak_memory_basis or "device", []).append(predicted / measured.peak_memory_bytes - 1.0)
        return {basis: np.array(errors) for basis, errors in sorted(table.items())}

    def refused_runs(self) -> tuple[int, int, int, int]:
        """Numbers of runs predicted above the limit, of those unfit at 90 %, of measured peaks, and of unfit measured peaks."""
        over, refused, measured = [], [], []
        for record, found in zip(self.records, self.predictions, strict=True):
            rule = fit_rule(record.workload, self.calibration.constants_of(record.workload))
            peak_bytes = float(found.peak_memory_bytes[0])
            over.append(peak_bytes > rule.memory_limit_bytes)
            refused.append(peak_bytes > rule.fit_limit_bytes)
            measured.append(record.measured.peak_memory_bytes is not None)
        return sum(over), sum(refused), sum(measured), sum(map(all, zip(refused, measured, strict=True)))

    def memory_by_rank(self) -> tuple[Floats, Floats]:
        """predicted / measured - 1 by rank: memory that stays after a step, and the peak of the first iteration."""
        after: list[Floats] = []
        peaks: list[Floats] = []
        for record in self.records:
            measured = record.measured
            if not measured.allocated_after_step_by_rank_bytes or record.suspect:
                continue
            found, _ = predict(record.of_memory, self.calibration.constants, breakdown=True)
            pp = record.strategy.pp
            after.append(_by_rank(found.stage_allocated_after_step_bytes, measured.allocated_after_step_by_rank_bytes, pp))
            peaks.append(_by_rank(found.stage_allocated_first_iteration_bytes, measured.peak_memory_by_rank_bytes, pp))
        empty = [np.empty(0)]
        return np.concatenate(after or empty), np.concatenate(peaks or empty)

    def plan_groups(self) -> list[PlanGroup]:
        return plan_groups(self.records, [float(found.step_time_s[0]) for found in self.predictions])


@dataclass(frozen=True)
class LeftOutPeaks:
    """Measured peaks of all families, each with the predicted probability that a device of exactly that size holds it."""

    errors: MemoryErrors
    sure: Floats
    bands: dict[str, ErrorBand]

    @classmethod
    def of(cls, families: Iterable[FamilyAccuracy]) -> LeftOutPeaks:
        several = list(families)
        errors = memory_errors([record for family in several for record in family.records], family_priors)
        bands = left_out_memory_bands(errors)
        spreads = (PeakSpread(min(band.low, 0.0), max(band.high, 0.0)) for band in bands)
        sure = [
            float(FitRule(1.0, 0.0, 0.9, spread).probability(np.exp(error)))
            for spread, error in zip(spreads, errors.log_errors, strict=True)
        ]
        return cls(errors, np.array(sure), {band.kind: band for band in several[0].calibration.memory_bands})

    @property
    def kinds(self) -> dict[str, Mask]:
        """Masks of the peaks of each kind of band. ``[peak]``"""
        own = np.array([memory_kind(record.workload) for record in self.errors.records])
        return {kind: (own == kind) | (kind == "all") for kind in self.bands}

    def num_shapes(self, mask: Mask) -> int:
        return len({str(group) for group, chosen in zip(self.errors.groups, mask, strict=True) if chosen})

    def shares(self, mask: Mask, level: float) -> tuple[float, float]:
        """Share of peaks that fit at this confidence, over runs and averaged over architectures."""
        groups = [str(group) for group, chosen in zip(self.errors.groups, mask, strict=True) if chosen]
        weights = [1.0 / groups.count(group) for group in groups]
        inside = self.sure[mask] <= level
        return float(inside.mean()), float(np.average(inside, weights=weights))


def _by_rank(per_stage: Floats | None, measured: Sequence[float], pp: int) -> Floats:
    """Values by rank; the pipeline is the outermost dimension of the rank number."""
    assert per_stage is not None
    ranks = np.arange(len(measured))
    return per_stage[ranks * pp // len(measured), 0] / np.array(measured) - 1.0
