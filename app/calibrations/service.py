"""Calibrations of stored runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from app.calibrations import repository
from app.calibrations.fit import check_stack
from app.calibrations.outcome import learned
from app.calibrations.runs.repository import records_of
from app.calibrations.runs.service import readable_record
from app.calibrations.schemas import CalibrationDocument, CalibrationRequest, CalibrationSummary
from app.http.paging import Listing, listing
from app.http.problems import ServiceError
from app.jobs.requests import check_keys
from app.storage.clock import now_s
from app.storage.tables import Calibration
from app.text.json_documents import plain
from calibration.files.calibrations import calibration_text
from calibration.procedure.calibrate import SiteOutcome
from calibration.records.training import RefusedRecord, RunRecord
from documents.errors import InputError, show
from documents.sentences import Sentence
from hardware_profiles import catalogue
from meshplan import __version__

SUMMARIZED = ("hardware", "stack", "num_runs")  # fields of a report
MAX_RUNS = 200
MAX_RECORDS = 2_000  # records read at most, to find that many of one stack


def parse_request(body: Mapping[str, Any]) -> tuple[str, str]:
    """Hardware and stack; ``InputError`` where either is unknown."""
    allowed = tuple(CalibrationRequest.model_fields)
    check_keys(body, allowed)
    for name in allowed:
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
    return hardware, stack


def site_records(session: Session, hardware: str, stack: str) -> tuple[list[RunRecord | RefusedRecord], list[str]]:
    """The newest stored runs of this hardware and stack, and a sentence if older ones are left out."""
    read = [readable_record(row, number) for number, row in enumerate(records_of(session, hardware, MAX_RECORDS), start=1)]
    found = [r for r in read if isinstance(r, RefusedRecord) or r.workload.software.stack == stack]
    if len(found) <= MAX_RUNS and len(read) < MAX_RECORDS:
        return found, []
    used = min(len(found), MAX_RUNS)
    return found[:MAX_RUNS], [
        Sentence("Only the newest {} stored runs were used; `meshplan calibrate` takes any number from a file.", used)
    ]


def store(session: Session, outcome: SiteOutcome, warnings: list[str]) -> CalibrationDocument:
    """Store the document and return it; the same runs give the same document, so a repeated request stores nothing twice."""
    report = plain(learned(outcome))
    row = {
        "id": outcome.calibration.fingerprint,
        "family": outcome.calibration.family,
        "constants": json.loads(calibration_text(outcome.calibration)),
        "report": {**report, "warnings": [*report["warnings"], *warnings]},
        "version": __version__,
        "created_at_s": now_s(session),
    }
    return _document(repository.put(session, row))


def get_calibration(session: Session, calibration_id: str) -> CalibrationDocument:
    found = repository.find(session, calibration_id)
    if found is None:
        raise ServiceError("not-found", Sentence("There is no calibration {}.", show(calibration_id)), parameter="calibration_id")
    return _document(found)


def list_calibrations(session: Session, after: int | None, limit: int) -> Listing[CalibrationSummary]:
    """Newest first."""
    return listing(repository.list_calibrations(session, after, limit + 1), limit, _summary)


def _known(row: Calibration) -> dict[str, Any]:
    return {"id": row.id, "created_at_s": row.created_at_s, "version": row.version}


def _summary(row: Calibration) -> CalibrationSummary:
    return CalibrationSummary.model_validate({**_known(row), **{name: row.report[name] for name in SUMMARIZED}})


def _document(row: Calibration) -> CalibrationDocument:
    return CalibrationDocument.model_validate({**_known(row), **row.report, "calibration": row.constants})
