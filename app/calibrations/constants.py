"""The constants that price a job: the shipped ones, or a calibration of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.jobs.job import Job
from calibration.files.calibrations import Calibration, calibration_for, read_calibration
from calibration.intervals.plan_differences import CONFIDENCE
from calibration.intervals.step_time import QUANTILES_FROM
from calibration.records.training import RunRecord
from calibration.splits.mechanisms import run_mechanisms
from cost_models.constants import Constants
from cost_models.shapes.workload import Workload
from documents.errors import InputError, show
from search.ranking.ties import PairedError

FIELD = "software.calibration (--calibration)"


def constants_for(workload: Workload, own: Sequence[Calibration] = ()) -> Constants:
    """The constants of the user's calibration if one applies, otherwise of the shipped one."""
    return calibration_for(workload, own).constants_of(workload)


def interval_of(record: RunRecord, step_time_s: float, own: Sequence[Calibration] = ()) -> tuple[float, float]:
    """80 % interval of a measured run's predicted step time. [s]"""
    used = run_mechanisms(record)
    found = calibration_for(record.workload, own).interval(record.workload, step_time_s, used)
    return found.low_s, found.high_s


def paired_error_of(workload: Workload, own: Sequence[Calibration] = ()) -> PairedError:
    """The difference below which two plans of the workload tie."""
    calibration = calibration_for(workload, own)
    found = calibration.paired_error(workload)
    jobs = f"{found.num_groups or 'no'} {'job' if found.num_groups == 1 else 'jobs'} measured under several plans"
    few = f"only {jobs}, so widened" if found.num_groups else f"{jobs}: assumed"
    basis = jobs if found.num_groups >= QUANTILES_FROM else few
    return PairedError(float(np.expm1(found.log_error)), CONFIDENCE, found.num_groups, found.num_pairs, basis)


def read_own(path: Path | None) -> tuple[Calibration, ...]:
    try:
        return () if path is None else (read_calibration(path),)
    except InputError as error:
        raise InputError(f"--calibration: {error}") from None


def own_calibrations(job: Job) -> tuple[Calibration, ...]:
    """The calibration file that the job names; ``InputError`` unless it is for the job's hardware and stack."""
    if job.calibration is None:
        return ()
    if "/" not in job.calibration:
        raise InputError(
            f"{FIELD}: {show(job.calibration)} is no file here; a server's own calibrations are used with its own searches and "
            "estimates, or saved as files (`calibration` of GET /v1/calibrations/ID)."
        )
    try:
        calibration = read_calibration(Path(job.calibration))
    except InputError as error:
        raise InputError(f"{FIELD}: {error}") from None
    check_applies(calibration, job, job.calibration, FIELD)
    return (calibration,)


def check_applies(calibration: Calibration, job: Job, name: str, field: str) -> None:
    """``InputError`` if the calibration was fitted for other hardware or software than the job's."""
    workload = job.workload
    if not calibration.applies_to(workload):
        fitted_for = f"{calibration.stack or calibration.family} on {calibration.hardware or 'any of its hardware'}"
        raise InputError(
            f"{field}: {name} was fitted for {fitted_for}, but the job runs {workload.software.stack} "
            f"on {workload.cluster.profile.name}."
        )


def calibration_sentence(calibration: Calibration) -> str:
    """The sentence of an answer about a calibration that the user gave."""
    return (
        f"software.calibration = {calibration.fingerprint}, fitted to runs of {calibration.stack or calibration.family} "
        f"on {calibration.hardware or 'any of its hardware'} by `{calibration.command}`"
    )
