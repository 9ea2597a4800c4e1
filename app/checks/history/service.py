"""Operations on kept checks. Every function works in the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from app.checks.history import repository
from app.checks.history.repository import History
from app.checks.history.schemas import (
    HistoryEntry,
    HistorySummary,
    KeepRequest,
    KeptChanges,
    KeptCheckDocument,
    KeptCheckSummary,
    Moves,
)
from app.checks.metrics import DELIVERED, DEVICE_DAYS, measured
from app.http import ownership
from app.http.paging import Listing, listing
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.jobs.requests import check_keys
from app.storage.clock import now_s
from app.storage.tables import KeptCheck
from app.studies.service import Archived
from documents.checking import check as held_against
from documents.errors import InputError, show
from documents.hashing import canonical_json, sha256_of
from documents.sentences import Sentence

TRENDS = ("step_time_s", "tokens_per_s", "mfu_fraction", "peak_memory_bytes", "headroom_bytes", *DELIVERED, DEVICE_DAYS)
NO_PART_OF_THE_JOB = ("search", "schema_version", "assumed")  # search settings, and the list of given fields
SHOWN_PARTS = 3  # characters of a movement in a list
_COLUMNS = {"model": "model_name", "etag_version": "row_version", "check": "document"}

View = TypeVar("View", bound=KeptCheckSummary)


def parse_entry(body: Mapping[str, Any]) -> tuple[HistoryEntry, dict[str, Any]]:
    """Split a request into its part ``history`` and the check; ``InputError`` without that part."""
    check_keys(body, KeepRequest.model_fields)
    entry = body.get("history")
    if not isinstance(entry, Mapping):
        found = Sentence("missing") if entry is None else Sentence("{} is not allowed", show(entry))
        raise InputError(Sentence("history: {}; give a mapping with name, that of the history.", found))
    return held_against(HistoryEntry, dict(entry), "history"), {name: part for name, part in body.items() if name != "history"}


def keep(session: Session, caller: Principal, entry: HistoryEntry, document: Mapping[str, Any]) -> KeptCheckDocument:
    """Stores the answer to a check, a JSON document, in the history that the caller names."""
    said = entry.model_dump(exclude={"taken_from", "visibility", "baseline_name"})
    row = KeptCheck(
        id=secrets.token_hex(8),
        created_at_s=now_s(session),
        owner=caller.owner,
        visibility="public" if caller.owner is None else entry.visibility,
        taken_from=entry.taken_from.model_dump(exclude_none=True),
        document=document,
        **said,
        **judged(document, entry.baseline_name),
    )
    repository.add(session, row)
    return _view(row, KeptCheckDocument)


def check_quota(session: Session, state: ServerState, caller: Principal) -> None:
    """``ServiceError`` if the caller's owner has as many kept checks as the key allows studies."""
    most = caller.limits.max_stored
    if caller.owner is not None and ownership.num_owned(session, caller.owner, KeptCheck) >= most:
        raise ownership.exceeded(state, "stored", Sentence("{:,} checks of {} are kept already.", most, show(caller.owner)))


def judged(document: Mapping[str, Any], baseline_name: str | None = None) -> dict[str, Any]:
    """Columns of a check's answer for lists and trends."""
    job: Mapping[str, Any] | None = document["job"]
    cluster = {} if job is None else job["cluster"]
    model = None if job is None else job["model"]
    name = model.get("name") if isinstance(model, Mapping) else model
    priced_job = {key: value for key, value in (job or {}).items() if key not in NO_PART_OF_THE_JOB}
    return {
        **{column: document[column] for column in ("status", "version", "priced_with")},
        "job_sha256": None if job is None else sha256_of(canonical_json({**priced_job, "strategy": document["strategy"]})),
        "model_name": name if isinstance(name, str) else None,
        "hardware": cluster.get("hardware"),
        "num_devices": cluster.get("num_devices"),
        "metrics": _metrics(document),
        "lines": document["checks"],
        "moved": _moved(document["baseline"], baseline_name),
    }


def _metrics(document: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    if document["estimate"] is not None:
        numbers = {**document["estimate"], **document.get("delivery", {})}
        for metric in TRENDS:
            with suppress(InputError):  # this job has no such number
                found[metric] = measured(metric, numbers, document["job"], where="check")
    budget = (line for line in document["checks"] if line["id"].startswith("budget."))
    return found | {line["metric"]: line["value"] for line in budget if line["value"] is not None}


def _moved(comparison: Mapping[str, Any] | None, name: str | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    shown = {name: comparison[name] for name in Moves.model_fields if name != "against"}
    parts = {name: [part for part in shown[name] if part["change"]][:SHOWN_PARTS] for name in ("time_parts", "memory_parts")}
    return {"against": name or comparison["name"], **shown, **parts}


def get(session: Session, caller: Principal, check_id: str) -> KeptCheckDocument:
    return _view(_found(session, caller, check_id), KeptCheckDocument)


def change(
    session: Session, caller: Principal, check_id: str, changes: KeptChanges, etag_version: int | None
) -> KeptCheckDocument:
    """Change the given values; with ``etag_version``, only if the caller has seen the latest version."""
    row = _found(session, caller, check_id, etag_version=etag_version, to_change=True)
    if changes.visibility not in (None, "public") and row.owner is None:
        raise ServiceError("conflict", Sentence("The check belongs to nobody, so that everybody sees it."))
    given = changes.model_dump(exclude_none=True)
    changed = {name: value for name, value in given.items() if value != getattr(row, name)}
    for name, value in changed.items():
        setattr(row, name, value)
    row.row_version += bool(changed)
    session.flush()
    return _view(row, KeptCheckDocument)


def delete(session: Session, caller: Principal, check_id: str, etag_version: int | None) -> None:
    repository.remove(session, _found(session, caller, check_id, etag_version=etag_version, to_change=True))


def list_checks(
    session: Session,
    caller: Principal,
    *,
    after: int | None,
    limit: int,
    archived: Archived = "false",
    **wanted: str | None,
) -> Listing[KeptCheckSummary]:
    """Newest first; ``wanted`` are values of columns."""
    filters = [*_seen(caller, archived), *(getattr(KeptCheck, name) == value for name, value in wanted.items() if value)]
    return listing(repository.list_checks(session, after, limit + 1, filters), limit, _summary)


def list_histories(session: Session, caller: Principal, *, after: int | None, limit: int) -> Listing[HistorySummary]:
    """Histories with checks that are not archived."""
    return listing(repository.list_histories(session, after, limit + 1, _seen(caller, "false")), limit, _history)


def _seen(caller: Principal, archived: Archived) -> list[ColumnElement[bool]]:
    seen = ownership.listed(caller, KeptCheck)
    return seen if archived == "any" else [*seen, KeptCheck.archived.is_(archived == "true")]


def _found(
    session: Session, caller: Principal, check_id: str, *, to_change: bool = False, etag_version: int | None = None
) -> KeptCheck:
    """The check of that id, if the caller may read it or, on request, change it. All access by id goes through here."""
    row = repository.find(session, check_id, for_update=to_change) if check_id.isascii() and check_id.isalnum() else None
    may = None if row is None else ownership.standing(caller, row.owner, row.visibility)
    if row is None or may is None:
        raise ServiceError("not-found", Sentence("There is no check {}.", show(check_id)), parameter="check_id")
    if to_change and may == "read":
        hint = Sentence("Have its job checked under a name of your own, or ask its owner.")
        raise ServiceError("forbidden", Sentence("The check belongs to {}; you may read it.", show(row.owner)), hint=hint)
    if etag_version is not None and row.row_version != etag_version:
        raise ServiceError("stale", Sentence("The check has changed since it was read."))
    return row


def _view(row: KeptCheck, kind: type[View], **others: Any) -> View:
    columns = {name: getattr(row, _COLUMNS.get(name, name)) for name in kind.model_fields if name not in others}
    return kind.model_validate({**columns, **others})


def _summary(row: KeptCheck) -> KeptCheckSummary:
    return _view(row, KeptCheckSummary)


def _history(found: History) -> HistorySummary:
    return HistorySummary(
        name=found.last.name,
        owner=found.last.owner,
        num_checks=found.num_checks,
        num_not_passed=found.num_not_passed,
        first_at_s=found.first_at_s,
        last=_summary(found.last),
    )
