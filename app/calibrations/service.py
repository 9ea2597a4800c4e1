"""Calibrations of stored runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy.orm import Session

from app.calibrations import repository
from app.calibrations.fit import check_stack, fit_of_records
from app.calibrations.outcome import learned
from app.calibrations.runs.repository import records_of
from app.calibrations.runs.service import readable_record
from app.calibrations.schemas import CalibrationDocument, CalibrationRequest, CalibrationSummary, Fit
from app.http.ownership import exceeded, listed, num_owned, own, standing
from app.http.paging import Listing, listing
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.jobs.requests import check_keys
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import Calibration, MeasuredRun
from app.text.json_documents import plain
from calibration.files.calibrations import calibration_text
from calibration.records.training import RefusedRecord, RunRecord
from documents.errors import InputError, show
from documents.sentences import Sentence
from hardware_profiles import catalogue
from meshplan import __version__

SUMMARIZED = ("hardware", "stack", "num_runs")  # fields of a report
MAX_RUNS = 200
MAX_RECORDS = 2_000  # records read at most, to find that many of one stack

Shared = Literal["link", "public"]


def parse_request(body: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Hardware, stack, and whether runs of others count; ``InputError`` where one is unknown."""
    check_keys(body, CalibrationRequest.model_fields)
    shared = body.get("shared", False)
    if not isinstance(shared, bool):
        raise InputError(Sentence("shared: {} is not allowed; give true or false.", show(shared)))
    for name in ("hardware", "stack"):
        value = body.get(name)
        if not isinstance(value, str):
            found = show(value) if name in body else "missing"
            raise InputError(
                Sentence(
                    "{}: {}; give the name of a {}.",
                    name,
                    found,
                    Sentence("hardware profile") if name == "hardware" else Sentence("framework"),
                )
            )
    hardware, stack = body["hardware"], body["stack"]
    if hardware not in catalogue.names():
        raise catalogue.unknown("hardware", hardware)
    check_stack(stack, catalogue.named(hardware).family, "stack")
    return hardware, stack, shared


def site_records(
    session: Session, caller: Principal, hardware: str, stack: str, *, shared: bool = False
) -> tuple[list[RunRecord | RefusedRecord], list[str]]:
    """The newest stored runs of this hardware and stack, and a sentence if older ones are left out.

    Only the caller's own runs count, so that nobody moves another's constants; if ``shared``, all that the caller may list.
    """
    seen = listed(caller, MeasuredRun) if shared else [own(caller, MeasuredRun)]
    rows = records_of(session, hardware, MAX_RECORDS, seen)
    read = [readable_record(row, number) for number, row in enumerate(rows, start=1)]
    found = [r for r in read if isinstance(r, RefusedRecord) or r.workload.software.stack == stack]
    if len(found) <= MAX_RUNS and len(read) < MAX_RECORDS:
        return found, []
    used = min(len(found), MAX_RUNS)
    return found[:MAX_RUNS], [
        Sentence("Only the newest {} stored runs were used; `meshplan calibrate` takes any number from a file.", used)
    ]


def check_quota(session: Session, state: ServerState, caller: Principal) -> None:
    """``ServiceError`` if the caller's owner has as many calibrations as the key allows studies."""
    most = caller.limits.max_stored
    if caller.owner is not None and num_owned(session, caller.owner, Calibration) >= most:
        raise exceeded(state, "stored", Sentence("{:,} calibrations of {} are stored already.", most, show(caller.owner)))


def fit_of_stored(database: Database, caller: Principal, hardware: str, stack: str, shared: bool) -> Fit:
    """The shipped calibration fitted to stored runs; ``InputError`` if the fit can use none or takes too long."""
    with database.read() as session:
        records, left_out = site_records(session, caller, hardware, stack, shared=shared)
    outcome = fit_of_records(records, hardware, stack)
    report = learned(outcome)
    return Fit(
        id=outcome.calibration.fingerprint,
        family=outcome.calibration.family,
        constants=json.loads(calibration_text(outcome.calibration)),
        report=report.model_copy(update={"warnings": [*report.warnings, *left_out]}),
    )


def store(session: Session, caller: Principal, fit: Fit, visibility: Shared = "link") -> CalibrationDocument:
    """Store the document and return it; the same runs give the same document, so a repeated request stores nothing twice."""
    row = {
        "owner": caller.owner,
        "visibility": "public" if caller.owner is None else visibility,
        **plain(fit),
        "version": __version__,
        "created_at_s": now_s(session),
    }
    return _document(repository.put(session, row))


def get_calibration(session: Session, calibration_id: str) -> CalibrationDocument:
    found = repository.find(session, calibration_id)
    if found is None:
        raise ServiceError("not-found", Sentence("There is no calibration {}.", show(calibration_id)), parameter="calibration_id")
    return _document(found)


def delete_calibration(session: Session, caller: Principal, calibration_id: str) -> None:
    """Delete the calibration as far as the caller may; ``ServiceError`` if it is another's, or there is none."""
    found = repository.find_all(session, calibration_id)
    numbers = [row.number for row in found if standing(caller, row.owner, row.visibility) == "change"]
    if found and not numbers:
        raise ServiceError("forbidden", Sentence("The calibration belongs to another owner; you may use it."))
    if not found:
        raise ServiceError("not-found", Sentence("There is no calibration {}.", show(calibration_id)), parameter="calibration_id")
    repository.remove(session, numbers)


def list_calibrations(session: Session, caller: Principal, after: int | None, limit: int) -> Listing[CalibrationSummary]:
    """Those that the caller may know of, newest first."""
    rows = repository.list_calibrations(session, after, limit + 1, listed(caller, Calibration))
    return listing(rows, limit, _summary)


def _known(row: Calibration) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "owner", "visibility", "created_at_s", "version")}


def _summary(row: Calibration) -> CalibrationSummary:
    return CalibrationSummary.model_validate({**_known(row), **{name: row.report[name] for name in SUMMARIZED}})


def _document(row: Calibration) -> CalibrationDocument:
    return CalibrationDocument.model_validate({**_known(row), **row.report, "calibration": row.constants})
