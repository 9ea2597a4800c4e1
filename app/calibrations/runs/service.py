"""Measured runs: read leniently, predicted, and stored once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from sqlalchemy.orm import Session

from app.calibrations.constants import constants_for, interval_of
from app.calibrations.runs import repository
from app.calibrations.runs.schemas import MAX_RUNS, DeletedRuns, PredictedRuns, RunItem, RunsRequest, StoredRun
from app.calibrations.stored import stored_constants
from app.http import ownership
from app.http.paging import Listing, listing
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.jobs.requests import MAX_SERVED_LAYERS, check_keys
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import MeasuredRun
from calibration.files.calibrations import Calibration
from calibration.records.training import RefusedRecord, RunRecord, parse_run_record
from calibration.validation.predictions import ValidationRow, validate
from documents.errors import InputError, show
from documents.hashing import canonical_json, sha256_of
from documents.reading import LIMITS
from documents.sentences import Sentence

MAX_RECORD_BYTES = 64 * 1024
SHA256_LETTERS = 64
_SHOWN = ("category", "owner", "visibility", "record_sha256", "created_at_s", "record")

Shared = Literal["private", "public"]


def predicted_runs(database: Database, body: Mapping[str, Any]) -> PredictedRuns:
    """The records of a request in their order, each predicted or refused; ``InputError`` without a list of records."""
    check_keys(body, RunsRequest.model_fields)
    runs = body.get("runs")
    if not isinstance(runs, list) or not 1 <= len(runs) <= MAX_RUNS:
        found = "missing" if "runs" not in body else Sentence("{} records", len(runs)) if isinstance(runs, list) else show(runs)
        raise InputError(Sentence("runs: {}; give a list of 1 to {} run records.", found, MAX_RUNS))
    items, digests = zip(*(_given(number, run) for number, run in enumerate(runs, start=1)), strict=True)
    return PredictedRuns(items=list(items), record_sha256=list(digests))


def readable_record(document: Mapping[str, Any], number: int) -> RunRecord | RefusedRecord:
    """Read a record from a request; a record whose price needs too much memory is refused."""
    record = parse_run_record(document, number)
    if isinstance(record, RunRecord) and record.workload.model.num_layers > MAX_SERVED_LAYERS:
        reason = Sentence(
            "model.num_layers is {}; the server takes at most {}.", record.workload.model.num_layers, MAX_SERVED_LAYERS
        )
        return RefusedRecord(record.id, number, reason, record.category, record.measured)
    return record


def store_runs(
    session: Session,
    state: ServerState,
    caller: Principal,
    records: Sequence[Any],
    predicted: PredictedRuns,
    visibility: Shared = "private",
) -> int:
    """Store the accepted records; equal records of an owner are stored once. Return the number of new ones.

    ``ServiceError`` if the owner had more records than the key allows studies; none is then stored.
    """
    at_s, most = now_s(session), caller.limits.max_stored
    owned = 0 if caller.owner is None else ownership.num_owned(session, caller.owner, MeasuredRun)
    rows = [
        {
            "owner": caller.owner,
            "visibility": "public" if caller.owner is None else visibility,
            "record_sha256": record_sha256,
            "record_id": item.id if isinstance(record.get("id"), str) else None,
            "category": item.category,
            "record": record,
            "created_at_s": at_s,
        }
        for record, item, record_sha256 in zip(records, predicted.items, predicted.record_sha256, strict=True)
        if record_sha256 is not None
    ]
    stored = repository.add_new(session, rows)
    if stored and caller.owner is not None and owned + stored > most:
        raise ownership.exceeded(
            state, "stored", Sentence("{:,} of {:,} runs that {} may store are stored already.", owned, most, show(caller.owner))
        )
    return stored


def delete_run(session: Session, caller: Principal, record_sha256: str) -> None:
    """Delete the record as far as the caller may; ``ServiceError`` if the caller may read it only, or there is none."""
    rights = {run.number: ownership.standing(caller, run.owner, run.visibility) for run in _rows(session, record_sha256)}
    numbers = [number for number, may in rights.items() if may == "change"]
    if not numbers and "read" in rights.values():
        raise ServiceError("forbidden", Sentence("The run belongs to another owner; you may read it."))
    if not numbers:
        raise ServiceError("not-found", Sentence("There is no run {}.", show(record_sha256)), parameter="record_sha256")
    repository.remove(session, numbers)


def delete_runs_of(session: Session, caller: Principal, owner: str) -> DeletedRuns:
    """Delete all records of an owner: the caller's, or anybody's for admins."""
    if not caller.is_admin and owner != caller.owner:
        raise ServiceError("forbidden", Sentence("Only {} and admins delete the runs of {}.", show(owner), show(owner)))
    return DeletedRuns(deleted=repository.remove_of(session, owner))


def _rows(session: Session, record_sha256: str) -> Sequence[MeasuredRun]:
    is_digest = len(record_sha256) == SHA256_LETTERS and record_sha256.isascii() and record_sha256.isalnum()
    return repository.find_runs(session, record_sha256) if is_digest else ()


def page(database: Database, caller: Principal, after: int | None, limit: int, calibration: str | None) -> Listing[StoredRun]:
    """A page of the stored runs that the caller may know of, as they were given."""
    return _page(database, caller, after, limit, calibration, lambda _record, _own: None)


def predicted_page(
    database: Database, caller: Principal, after: int | None, limit: int, calibration: str | None
) -> Listing[StoredRun]:
    """``page`` with the prediction of each run, where it applies by the stored calibration of that id."""
    return _page(database, caller, after, limit, calibration, prediction_of)


def _page(
    database: Database,
    caller: Principal,
    after: int | None,
    limit: int,
    calibration: str | None,
    predict: Callable[[Mapping[str, Any], tuple[Calibration, ...]], RunItem | None],
) -> Listing[StoredRun]:
    with database.read() as session:
        own = () if calibration is None else (stored_constants(session, calibration, "calibration"),)
        rows = repository.list_runs(session, after, limit + 1, ownership.listed(caller, MeasuredRun))

    def stored(run: MeasuredRun) -> StoredRun:
        return StoredRun(
            id=run.record_id,
            **{name: getattr(run, name) for name in _SHOWN},
            prediction=predict(run.record, own),
        )

    return listing(rows, limit, stored)


def prediction_of(record: Mapping[str, Any], own: tuple[Calibration, ...] = ()) -> RunItem:
    """Prediction of a stored record by this version, with the first calibration of the user that applies, or the shipped one."""
    return _prediction_of(canonical_json(record, ascii_only=False), own)


@lru_cache(maxsize=4 * MAX_RUNS)
def _prediction_of(text: str, own: tuple[Calibration, ...]) -> RunItem:
    return _given(1, json.loads(text), own)[0]


def _given(number: int, run: object, own: tuple[Calibration, ...] = ()) -> tuple[RunItem, str | None]:
    """A record with its prediction, and the SHA-256 of its canonical JSON, ``None`` if it is refused."""
    if not isinstance(run, Mapping):
        reason = Sentence("The record is {}; a JSON object is needed.", show(run))
        return _item(RefusedRecord(f"line-{number}", number, reason)), None
    record = readable_record(run, number)
    if _is_deep(run, LIMITS.depth):
        reason = Sentence("The record is nested deeper than {} levels.", LIMITS.depth)
        return _item(RefusedRecord(record.id, number, reason, record.category)), None
    try:
        text = canonical_json(run, ascii_only=False)
    except ValueError:
        reason = Sentence("The record holds a number beyond 1e308.")
        return _item(RefusedRecord(record.id, number, reason, record.category)), None
    if len(text.encode()) > MAX_RECORD_BYTES:
        reason = Sentence("The record holds {:,} bytes; at most {:,} are taken.", len(text.encode()), MAX_RECORD_BYTES)
        return _item(RefusedRecord(record.id, number, reason, record.category)), None
    item = _item(record, own)
    return item, None if item.refused is not None else sha256_of(text)


def _item(record: RunRecord | RefusedRecord, own: tuple[Calibration, ...] = ()) -> RunItem:
    row = _predicted(record, own)
    return RunItem.model_validate({name: getattr(row, name) for name in RunItem.model_fields})


def _predicted(record: RunRecord | RefusedRecord, own: tuple[Calibration, ...] = ()) -> ValidationRow:
    beyond = Sentence("Its numbers lead to times or sizes beyond 1e308.")
    try:
        with np.errstate(all="ignore"):
            (row,) = validate([record], partial(constants_for, own=own), partial(interval_of, own=own)).rows
    except ArithmeticError:
        return _predicted(RefusedRecord(record.id, record.line_number, beyond, record.category, record.measured))
    numbers = [value for value in (getattr(row, name) for name in RunItem.model_fields) if isinstance(value, float)]
    if all(map(math.isfinite, numbers)):
        return row
    return replace(row, predicted_step_time_s=None, low_s=None, high_s=None, error_fraction=None, refused=beyond)


def _is_deep(value: object, levels: int) -> bool:
    """Whether containers are nested more than ``levels`` deep; an answer with such a record cannot be written."""
    if not isinstance(value, dict | list):
        return False
    within = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deep(item, levels - 1) for item in within)
