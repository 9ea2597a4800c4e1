"""A user's own calibration: read for a job, or made from runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.jobs.job import Job
from calibration.calibrate import SiteOutcome, calibrate_site
from calibration.files import Calibration, CalibrationError, family_of, read_calibration, shipped_calibration
from calibration.fitting import Progress
from calibration.run_records import RunRecordError, read_run_records
from documents.errors import InputError, show, unknown_name
from hardware_profiles import catalogue
from hardware_profiles.schema import HardwareProfile, ProfileError

FIELD = "software.calibration (--calibration)"
ASCEND_STACKS = ("mindformers", "mindspeed-llm")
GPU_STACKS = ("fsdp", "maxtext", "megatron-deepspeed", "megatron-lm", "nemo")


def read_own(path: Path | None) -> tuple[Calibration, ...]:
    try:
        return () if path is None else (read_calibration(path),)
    except CalibrationError as error:
        raise InputError(f"--calibration: {error}") from None


def own_calibrations(job: Job) -> tuple[Calibration, ...]:
    """The calibration file that the job names, which must be for the job's hardware and stack."""
    if job.calibration is None:
        return ()
    if "/" not in job.calibration:
        raise InputError(
            f"{FIELD}: {show(job.calibration)} is no file here; a server's own calibrations are used with its own searches and "
            "estimates, or saved as files (`calibration` of GET /v1/calibrations/ID)."
        )
    try:
        calibration = read_calibration(Path(job.calibration))
    except CalibrationError as error:
        raise InputError(f"{FIELD}: {error}") from None
    check_applies(calibration, job, job.calibration, FIELD)
    return (calibration,)


def check_applies(calibration: Calibration, job: Job, name: str, field: str) -> None:
    """``InputError`` where the calibration was fitted for other hardware or software than the job's."""
    workload = job.workload
    if not calibration.applies_to(workload):
        fitted_for = f"{calibration.stack or calibration.family} on {calibration.hardware or 'any of its hardware'}"
        raise InputError(
            f"{field}: {name} was fitted for {fitted_for}, but the job runs {workload.software.stack} "
            f"on {workload.cluster.profile.name}."
        )


def site_outcome(runs: Path, hardware: str, stack: str, on_progress: Progress | None = None) -> SiteOutcome:
    """The shipped calibration moved to the runs of a file; ``InputError`` where nothing can be learned."""
    try:
        profile = catalogue.profile(hardware)
    except ProfileError as error:
        raise InputError(f"--hardware: {error}") from None
    stacks = ASCEND_STACKS if profile.family == "ascend" else GPU_STACKS
    if stack not in stacks:
        raise unknown_name("--stack", stack, stacks, what=f"software stack of {profile.family} devices")
    try:
        return calibrate_site(
            read_run_records(runs, _profile_of(profile, hardware)),
            shipped_calibration(family_of(profile.family)),
            hardware=profile.name,
            stack=stack,
            command=f"meshplan calibrate {runs.name} --hardware {hardware} --stack {stack}",
            on_progress=on_progress,
        )
    except RunRecordError as error:
        raise InputError(str(error)) from None
    except ValueError as error:
        raise InputError(f"{show(str(runs))}: {error}") from None


def _profile_of(own: HardwareProfile, reference: str) -> Callable[[str], HardwareProfile]:
    """Finds a profile by name; the user's own file goes by its name and by its path."""
    return lambda name: own if name in (own.name, reference) else catalogue.named(name)
