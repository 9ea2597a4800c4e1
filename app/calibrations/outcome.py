"""The result of a fit to a user's runs, as a document."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.calibrations.schemas import CalibrateDocument, ErrorsDocument, Learned
from app.text.json_documents import plain
from calibration.files.calibrations import FittedConstant
from calibration.intervals.step_time import QUANTILES_FROM
from calibration.intervals.widening import NOMINAL_COVERAGE
from calibration.procedure.calibrate import SiteOutcome
from calibration.procedure.time_factor import SiteFactor
from documents.sentences import Sentence


def calibrate_document(outcome: SiteOutcome, path: Path) -> CalibrateDocument:
    found = {"schema_version": 1, "file": str(path), "fingerprint": outcome.calibration.fingerprint, **plain(learned(outcome))}
    return CalibrateDocument.model_validate(found)


def learned(outcome: SiteOutcome) -> Learned:
    calibration = outcome.calibration
    found = {
        "hardware": calibration.hardware,
        "stack": calibration.stack,
        "num_runs": len(outcome.fitted.observations),
        "constants": [{**asdict(entry), "learned_fraction": learned_fraction(entry)} for entry in free(outcome)],
        "on_bound": list(outcome.fitted.at_bound),
        "time_factor": asdict(outcome.factor),
        "errors": {
            "left_out_by": outcome.left_out_by,
            "before": errors_of(outcome.base_log_errors),
            "left_out": errors_of(outcome.left_out),
            "fitted": errors_of(outcome.fitted.log_errors),
        },
        "rows": [
            {"id": o.record.id, "error_before_fraction": float(before), "error_left_out_fraction": float(after)}
            for o, before, after in zip(
                outcome.fitted.observations, np.expm1(outcome.base_log_errors), np.expm1(outcome.left_out), strict=True
            )
        ],
        "refused": [{"id": name, "reason": reason} for name, reason in outcome.refused],
        "warnings": warnings(outcome),
    }
    return Learned.model_validate(found)


def free(outcome: SiteOutcome) -> list[FittedConstant]:
    return [entry for entry in outcome.calibration.fitted if entry.name in outcome.fitted.names]


def learned_fraction(entry: FittedConstant) -> float:
    """Share of a constant's spread that the runs removed."""
    return max(0.0, 1.0 - entry.log_spread / entry.prior_log_spread)


def factor_sentence(factor: SiteFactor) -> str:
    found = Sentence(
        "cluster.time_factor = {:.3f} is the one number that would explain these runs in place of the constants", factor.value
    )
    if factor.num_inside >= NOMINAL_COVERAGE * factor.num_runs:
        return Sentence(
            "{}, but they lie inside the intervals of the shipped calibration: it says no more than the model's own error.", found
        )
    return Sentence("{}: --cluster-time-factor {:.3f}.", found, factor.value)


def warnings(outcome: SiteOutcome) -> list[str]:
    found: list[str] = [
        Sentence(
            "{} sits on a bound of its range: the runs ask for more than this mechanism can explain; check them first.", name
        )
        for name in outcome.fitted.at_bound
    ]
    if not outcome.has_own_intervals:
        by = Sentence("model shapes") if outcome.left_out_by == "architecture" else "runs"
        found.append(Sentence("Fewer than {} {} cannot narrow the intervals of the shipped calibration.", QUANTILES_FROM, by))
    before, after = (np.abs(np.expm1(errors)).mean() for errors in (outcome.base_log_errors, outcome.left_out))
    if after > before:
        found.append(
            Sentence(
                "Left out, these runs are predicted worse than before ({:.1%} against {:.1%} mean error): "
                "they disagree with one another; keep the shipped calibration until more of them are there.",
                after,
                before,
            )
        )
    return found


def errors_of(log_errors: NDArray[np.float64]) -> ErrorsDocument:
    errors = np.expm1(log_errors)
    return ErrorsDocument(
        median_abs_error_fraction=float(np.median(np.abs(errors))),
        mean_abs_error_fraction=float(np.mean(np.abs(errors))),
        bias_fraction=float(np.median(errors)),
    )
