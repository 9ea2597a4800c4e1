"""Writes the errors of plan differences into the shipped calibrations. Run by `make calibration` after the fit."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from calibration.files.calibrations import Calibration, read_calibration, write_calibration
from calibration.intervals.plan_differences import JobPairs, job_pairs, paired_errors
from calibration.procedure.calibrate import family_observations, rounded_paired
from calibration.procedure.constants_left_out import splits_of
from calibration.records.training import RunRecord, read_run_records

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("ascend", "gpu")


def shipped(family: str) -> Path:
    return ROOT / "calibration/shipped" / f"{family}.json"


def left_out_pairs(calibration: Calibration) -> tuple[JobPairs, ...]:
    """The pairs of a family's runs, predicted with constants that saw no run of their architecture."""
    records = [r for r in read_run_records(ROOT / "calibration/runs" / f"{calibration.family}.jsonl") if isinstance(r, RunRecord)]
    splits = splits_of(calibration, family_observations(records, calibration.family))
    return job_pairs([o.record for o in splits.fitted_model.observations], splits.architecture.tolist())


def write_paired() -> None:
    calibrations = {family: read_calibration(shipped(family)) for family in FAMILIES}
    pairs = {family: left_out_pairs(calibration) for family, calibration in calibrations.items()}
    for family, calibration in calibrations.items():
        others = [job for other in FAMILIES if other != family for job in pairs[other]]
        errors = rounded_paired(paired_errors(pairs[family], others))
        write_calibration(shipped(family), replace(calibration, paired=errors))
        for error in errors:
            print(f"{family}, paired, {error.kind}: {error.log_error:.3f} ({error.num_groups} jobs, {error.num_pairs} pairs)")


if __name__ == "__main__":
    write_paired()
