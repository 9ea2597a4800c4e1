"""A check of a job that a stranger sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.calibrations.stored import stored_calibrations
from app.checks.baseline import parse_baseline
from app.checks.budget import Budget, parse_budget
from app.checks.check import check_job, check_without_job
from app.checks.schemas import CheckDocument, CheckRequest
from app.jobs.requests import check_keys, parse_request, with_time_limit
from documents.errors import InfeasibleStrategyError, InputError, show

if TYPE_CHECKING:
    from app.storage.session import Database


def check_request(document: Mapping[str, Any], database: Database) -> CheckDocument:
    """The answer to a request body; ``InputError`` where nothing can be checked."""
    check_keys(document, CheckRequest.model_fields)
    own = ("budget", "baseline", "pin")
    budget, baseline, pin = (document.get(name) for name in own)
    for name, part in (("budget", budget), ("baseline", baseline)):
        if not isinstance(part, Mapping | None):
            raise InputError(f"{name}: {show(part)} is not allowed; give a mapping.")
    if not isinstance(pin, bool | None):
        raise InputError(f"pin: {show(pin)} is not allowed; give true or false.")
    if budget is None and baseline is None:
        raise InputError("budget: missing; give a budget, or a baseline to compare with.")
    limits = Budget() if budget is None else parse_budget(budget, has_baseline=baseline is not None)
    before = None if baseline is None else parse_baseline(baseline, "baseline")
    try:
        job = parse_request({key: value for key, value in document.items() if key not in own})
    except InfeasibleStrategyError as error:
        return check_without_job(str(error), limits, with_regression=before is not None).document
    calibrations = stored_calibrations(database, job)
    return check_job(with_time_limit(job), limits, baseline=before, pin=bool(pin), own=calibrations).document
