"""A check of a job in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.calibrations.constants import check_applies
from app.calibrations.stored import stored_calibrations
from app.checks.baseline import parse_baseline
from app.checks.budget import Budget, parse_budget
from app.checks.check import check_job, check_without_job
from app.checks.schemas import CheckDocument, CheckRequest
from app.jobs.fields import JobDocument
from app.jobs.job import Job
from app.jobs.requests import check_keys, parse_request, with_time_limit
from calibration.files.calibrations import Calibration, calibration_from_mapping
from documents.errors import InfeasibleStrategyError, InputError, show
from documents.sentences import Sentence
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile

if TYPE_CHECKING:
    from app.storage.session import Database


def check_request(document: Mapping[str, Any], database: Database) -> CheckDocument:
    """The answer to a request body; ``InputError`` if nothing can be checked."""
    check_keys(document, CheckRequest.model_fields)
    own = tuple(name for name in CheckRequest.model_fields if name not in JobDocument.model_fields)
    budget, baseline, pin = (document.get(name) for name in ("budget", "baseline", "pin"))
    for name in own:
        part = document.get(name)
        if name != "pin" and not isinstance(part, Mapping | None):
            raise InputError(Sentence("{}: {} is not allowed; give a mapping.", name, show(part)))
    if not isinstance(pin, bool | None):
        raise InputError(Sentence("pin: {} is not allowed; give true or false.", show(pin)))
    if budget is None and baseline is None:
        raise InputError(Sentence("budget: missing; give a budget, or a baseline to compare with."))
    limits = Budget() if budget is None else parse_budget(budget, has_baseline=baseline is not None)
    before = None if baseline is None else parse_baseline(baseline, "baseline")
    try:
        job = _job({key: value for key, value in document.items() if key not in own}, document.get("hardware_profile"))
    except InfeasibleStrategyError as error:
        return check_without_job(str(error), limits, with_regression=before is not None).document
    calibrations = _calibrations(job, document.get("calibration"), database)
    return check_job(with_time_limit(job), limits, baseline=before, pin=bool(pin), own=calibrations).document


def _job(document: Mapping[str, Any], given: Mapping[str, Any] | None) -> Job:
    if given is None:
        return parse_request(document)
    job = parse_request(document, parse_profile(given, "hardware_profile"))
    hardware = job.document["cluster"]["hardware"]
    if hardware in catalogue.names():
        raise InputError(
            Sentence("hardware_profile: given beside {}, which the server has; name yours otherwise.", show(hardware))
        )
    return replace(
        job,
        assumptions=(*job.assumptions, Sentence("cluster.hardware = {}: numbers of the request's hardware_profile", hardware)),
    )


def _calibrations(job: Job, given: Mapping[str, Any] | None, database: Database) -> tuple[Calibration, ...]:
    if given is None:
        return stored_calibrations(database, job)
    if job.calibration is None:
        raise InputError(Sentence("calibration: given, and software.calibration names none; name it there, or leave it out."))
    calibration = calibration_from_mapping(given, "calibration")
    check_applies(calibration, job, job.calibration, "calibration")
    return (calibration,)
