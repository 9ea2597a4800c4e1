"""Calibrations of stored runs, and the bound on what one request may cost."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.calibrations import repository
from app.calibrations.own import ASCEND_STACKS, GPU_STACKS, check_applies
from app.calibrations.report import learned
from app.calibrations.runs.repository import records_of
from app.calibrations.runs.service import readable_record
from app.calibrations.schemas import CalibrationRequest, CalibrationSummary
from app.http.jobs import check_keys
from app.http.problems import ServiceError
from app.jobs.job import Job
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import Calibration
from calibration.calibrate import SiteOutcome, calibrate_site
from calibration.files import Calibration as StoredConstants
from calibration.files import CalibrationError, calibration_text, family_of, parse_calibration, shipped_calibration
from calibration.run_records import RefusedRecord, RunRecord
from documents.errors import InputError, show, unknown_name
from hardware_profiles import catalogue
from meshplan import __version__

MAX_RUNS = 200
MAX_RECORDS = 2_000  # read to find that many of one stack
MAX_FIT_S = 120.0  # 200 runs converge in about a minute
FIELD = "software.calibration"
_ID = re.compile(r"[0-9a-f]{12}")
_fitting = threading.Lock()  # a fit keeps a core busy: one at a time leaves the others to the rest of the server


def parse_request(body: Mapping[str, Any]) -> tuple[str, str]:
    """Hardware and stack; ``InputError`` where either is unknown."""
    allowed = tuple(CalibrationRequest.model_fields)
    check_keys(body, allowed)
    for name in allowed:
        value = body.get(name)
        if not isinstance(value, str):
            found = show(value) if name in body else "missing"
            raise InputError(f"{name}: {found}; give the name of a {'hardware profile' if name == 'hardware' else 'framework'}.")
    hardware, stack = body["hardware"], body["stack"]
    if hardware not in catalogue.names():
        raise unknown_name("hardware", hardware, catalogue.names(), what="hardware profile")
    family = catalogue.named(hardware).family
    stacks = ASCEND_STACKS if family == "ascend" else GPU_STACKS
    if stack not in stacks:
        raise unknown_name("stack", stack, stacks, what=f"software stack of {family} devices")
    return hardware, stack


def site_records(session: Session, hardware: str, stack: str) -> tuple[list[RunRecord | RefusedRecord], list[str]]:
    """The newest stored runs of this hardware and stack, and a sentence where older ones stay out."""
    read = [readable_record(row, number) for number, row in enumerate(records_of(session, hardware, MAX_RECORDS), start=1)]
    found = [r for r in read if isinstance(r, RefusedRecord) or r.workload.software.stack == stack]
    if len(found) <= MAX_RUNS and len(read) < MAX_RECORDS:
        return found, []
    used = min(len(found), MAX_RUNS)
    return found[:MAX_RUNS], [f"Only the newest {used} stored runs were used; `meshplan calibrate` takes any number from a file."]


def fitted(records: Sequence[RunRecord | RefusedRecord], hardware: str, stack: str) -> SiteOutcome:
    """The shipped calibration moved to the runs; ``InputError`` where they teach nothing or take too long."""
    if not records:
        raise InputError(f"hardware: no run of {stack} on {hardware} is stored; send some to POST /v1/runs first.")
    if not _fitting.acquire(blocking=False):
        raise ServiceError("unavailable", "Another calibration is being fitted.", headers={"Retry-After": "10"})
    ends_s = time.monotonic() + MAX_FIT_S

    def stop_late(iteration: int, median: float) -> None:
        if time.monotonic() > ends_s:
            raise InputError(f"hardware: the fit took more than {MAX_FIT_S:.0f} s; fit these runs with `meshplan calibrate`.")

    try:
        return calibrate_site(
            records,
            shipped_calibration(family_of(catalogue.named(hardware).family)),
            hardware=hardware,
            stack=stack,
            command="POST /v1/calibrations " + json.dumps({"hardware": hardware, "stack": stack}),
            on_progress=stop_late,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"hardware: {error}") from None
    finally:
        _fitting.release()


def store(session: Session, outcome: SiteOutcome, warnings: list[str]) -> dict[str, Any]:
    """The stored document; the same runs teach the same, so repeating a request stores nothing twice."""
    report = learned(outcome)
    row = {
        "id": outcome.calibration.fingerprint,
        "family": outcome.calibration.family,
        "constants": json.loads(calibration_text(outcome.calibration)),
        "report": {**report, "warnings": [*report["warnings"], *warnings]},
        "version": __version__,
        "created_at_s": now_s(session),
    }
    return _document(repository.put(session, row))


def get_calibration(session: Session, calibration_id: str) -> dict[str, Any]:
    found = repository.find(session, calibration_id) if _ID.fullmatch(calibration_id) else None
    if found is None:
        raise ServiceError("not-found", f"There is no calibration {show(calibration_id)}.", parameter="calibration_id")
    return _document(found)


def stored_constants(session: Session, name: str, field: str) -> StoredConstants:
    """The stored calibration of that id; ``InputError`` where there is none, or none that this version reads."""
    found = repository.find(session, name) if _ID.fullmatch(name) else None
    if found is None:
        raise InputError(f"{field}: {show(name)} is no stored calibration; GET /v1/calibrations lists those that are.")
    try:
        return parse_calibration(json.dumps(found.constants), name)
    except CalibrationError as error:
        raise InputError(
            f"{field}: {str(error).rstrip('.')} (it is of version {found.version}); POST /v1/calibrations fits it anew."
        ) from None


def calibrations_of(session: Session, job: Job) -> tuple[StoredConstants, ...]:
    """The stored calibration that the job names, which must be for its hardware and software; ``InputError`` where none is."""
    name = job.calibration
    if name is None:
        return ()
    calibration = stored_constants(session, name, FIELD)
    check_applies(calibration, job, name, FIELD)
    return (calibration,)


def stored_calibrations(database: Database, job: Job) -> tuple[StoredConstants, ...]:
    """``calibrations_of`` in a transaction of its own, which most jobs do without."""
    if job.calibration is None:
        return ()
    with database.read() as session:
        return calibrations_of(session, job)


def list_calibrations(session: Session, after: int | None, limit: int) -> tuple[list[dict[str, Any]], int | None]:
    """Summaries, newest first, and the position of the next page."""
    found = repository.list_calibrations(session, after, limit + 1)
    items = [{name: _document(row)[name] for name in CalibrationSummary.model_fields} for row in found[:limit]]
    return items, found[limit - 1].number if len(found) > limit else None


def _document(row: Calibration) -> dict[str, Any]:
    known = {"id": row.id, "created_at_s": row.created_at_s, "version": row.version}
    return {**known, **row.report, "calibration": row.constants}
