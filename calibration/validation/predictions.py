"""Predictions of measured runs, and their errors. Nothing is fitted here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibration.records.categories import CATEGORIES
from calibration.records.known_flags import NO_FLAGS, RecordFlags
from calibration.records.recompute_recipe import recompute_by_memory
from calibration.records.training import Measured, RefusedRecord, RunRecord
from cost_models.constants import Constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.result import Estimate
from documents.late_methods import dataclass

ConstantsFor = Callable[[Workload], Constants]
IntervalFor = Callable[[RunRecord, float], tuple[float, float] | None]

_PEAKS = {
    "allocated_first_iteration": "allocated_first_iteration_bytes",
    "allocated": "allocated_peak_bytes",
    "reserved": "reserved_peak_bytes",
    "device": "pooled_peak_bytes",
}


@dataclass(frozen=True)
class ValidationRow:
    """One run: predicted, measured, and predicted / measured - 1. A refused run has a sentence and no predictions.

    Memory is of the measured kind; the device's peak if none was measured. ``flags`` says how each flag of the record was read.
    """

    id: str
    category: str | None
    predicted_step_time_s: float | None
    low_s: float | None
    high_s: float | None
    measured_step_time_s: float | None
    error_fraction: float | None
    predicted_peak_memory_bytes: float | None
    measured_peak_memory_bytes: float | None
    memory_error_fraction: float | None
    refused: str | None
    warnings: tuple[str, ...]
    flags: RecordFlags = NO_FLAGS


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of the runs of one category.

    ``bias_fraction`` is the median signed error, ``coverage_fraction`` the share of measured times inside their
    interval (``None`` without intervals). Memory has its own count: few runs publish it.
    """

    count: int
    median_abs_error_fraction: float | None
    mean_abs_error_fraction: float | None
    p90_abs_error_fraction: float | None
    bias_fraction: float | None
    coverage_fraction: float | None
    memory_count: int
    memory_median_abs_error_fraction: float | None
    memory_mean_abs_error_fraction: float | None


@dataclass(frozen=True)
class ValidationReport:
    """Rows in the order of the records, and errors by category; ``all`` is every predicted run."""

    rows: tuple[ValidationRow, ...]
    summary: dict[str, ErrorSummary]

    @property
    def num_refused(self) -> int:
        """Runs without a prediction."""
        return sum(row.refused is not None for row in self.rows)


def validate(
    records: Sequence[RunRecord | RefusedRecord], constants_for: ConstantsFor, interval_for: IntervalFor | None = None
) -> ValidationReport:
    """Predict every record with the constants of its workload, and compare.

    ``interval_for`` gives a run's interval [s] around its predicted time, or ``None``.
    """
    rows = tuple(
        _refused(record, record.reason) if isinstance(record, RefusedRecord) else _predicted(record, constants_for, interval_for)
        for record in records
    )
    summary = {"all": summarise(rows)}
    for category in CATEGORIES:
        chosen = [row for row in rows if row.category == category and row.refused is None]
        if chosen:
            summary[category] = summarise(chosen)
    return ValidationReport(rows, summary)


def predict(
    record: RunRecord, constants: Constants, *, breakdown: bool = False, price: Callable[..., Estimate] = simulate
) -> tuple[Estimate, str | None]:
    """Estimate of one run (arrays ``[1]``), and a sentence if its recompute had to be inferred.

    ``price`` is the fidelity: simulated, or ``cost_models.step.composition.estimate`` for the closed form.

    Raises ``ValueError`` for a strategy that cannot be priced.
    """
    strategy, inferred = recompute_by_memory(record, constants)
    by_rank = breakdown or record.measured.peak_of_last_rank
    return price(record.workload, StrategyBatch.of([strategy]), constants, breakdown=by_rank), inferred


def predicted_peak_bytes(found: Estimate, measured: Measured) -> float:
    """Predicted peak of the measured kind and rank: the fullest rank, or the last of the pipeline. [B]"""
    if measured.peak_of_last_rank and found.stage_allocated_peak_bytes is not None:
        return float(found.stage_allocated_peak_bytes[-1, 0])
    return float(getattr(found, _PEAKS[measured.peak_memory_basis or "device"])[0])


def summarise(rows: Sequence[ValidationRow]) -> ErrorSummary:
    """Errors over the rows that have both a prediction and a measurement."""
    errors = np.array([row.error_fraction for row in rows if row.error_fraction is not None])
    memory = np.array([row.memory_error_fraction for row in rows if row.memory_error_fraction is not None])
    inside = [
        row.low_s <= row.measured_step_time_s <= row.high_s
        for row in rows
        if row.low_s is not None and row.high_s is not None and row.measured_step_time_s is not None
    ]
    return ErrorSummary(
        count=len(errors),
        median_abs_error_fraction=float(np.median(np.abs(errors))) if len(errors) else None,
        mean_abs_error_fraction=float(np.mean(np.abs(errors))) if len(errors) else None,
        p90_abs_error_fraction=float(np.quantile(np.abs(errors), 0.9)) if len(errors) else None,
        bias_fraction=float(np.median(errors)) if len(errors) else None,
        coverage_fraction=float(np.mean(inside)) if inside else None,
        memory_count=len(memory),
        memory_median_abs_error_fraction=float(np.median(np.abs(memory))) if len(memory) else None,
        memory_mean_abs_error_fraction=float(np.mean(np.abs(memory))) if len(memory) else None,
    )


def _predicted(record: RunRecord, constants_for: ConstantsFor, interval_for: IntervalFor | None) -> ValidationRow:
    try:
        found, inferred = predict(record, constants_for(record.workload))
    except ValueError as error:
        return _refused(record, str(error))
    step_time_s = float(found.step_time_s[0])
    interval = interval_for(record, step_time_s) if interval_for else None
    of_memory = found if record.memory_year is None else predict(record.of_memory, constants_for(record.workload))[0]
    peak_bytes = predicted_peak_bytes(of_memory, record.measured)
    return ValidationRow(
        id=record.id,
        category=record.category,
        predicted_step_time_s=step_time_s,
        low_s=interval[0] if interval else None,
        high_s=interval[1] if interval else None,
        measured_step_time_s=record.measured.step_time_s,
        error_fraction=_error_fraction(step_time_s, record.measured.step_time_s),
        predicted_peak_memory_bytes=peak_bytes,
        measured_peak_memory_bytes=record.measured.peak_memory_bytes,
        memory_error_fraction=_error_fraction(peak_bytes, record.measured.peak_memory_bytes),
        refused=None,
        warnings=record.warnings + ((inferred,) if inferred else ()),
        flags=record.flags,
    )


def _refused(record: RunRecord | RefusedRecord, reason: str) -> ValidationRow:
    return ValidationRow(
        id=record.id,
        category=record.category,
        predicted_step_time_s=None,
        low_s=None,
        high_s=None,
        measured_step_time_s=record.measured.step_time_s,
        error_fraction=None,
        predicted_peak_memory_bytes=None,
        measured_peak_memory_bytes=record.measured.peak_memory_bytes,
        memory_error_fraction=None,
        refused=reason,
        warnings=(),
    )


def _error_fraction(predicted: float, measured: float | None) -> float | None:
    return None if measured is None else predicted / measured - 1.0
