"""``/v1/checks`` and ``/v1/histories``: checks that are kept."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import IntegrityError

from app.checks.history import service
from app.checks.history.schemas import (
    HistoryEntry,
    HistorySummary,
    KeepRequest,
    KeptChanges,
    KeptCheckDocument,
    KeptCheckSummary,
)
from app.checks.schemas import Status
from app.checks.service import check_request
from app.http import etag
from app.http.bodies import StrictRoute, sent
from app.http.paging import Limit, Listing, Position, Wanted
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.http.security import Caller, Principal
from app.http.state import ServerState, state_of
from app.studies import idempotency
from app.studies.service import Archived
from app.text.json_documents import DescribedBy, json_bytes, plain
from documents.checking import check
from documents.sentences import all_unpacked

CheckId = Annotated[str, Path(max_length=64, description="a kept check's id")]

router = APIRouter(tags=["checks"], route_class=StrictRoute)


@router.post(
    "/checks:keep",
    status_code=201,
    response_model=KeptCheckDocument,
    responses=described("invalid-input", "key-reused", "request-in-progress", "not-json", "too-large", "quota-exceeded"),
)
async def keep_check(
    request: Request,
    caller: Caller,
    body: Annotated[dict[str, Any], DescribedBy(KeepRequest), Body()],
    idempotency_key: idempotency.IdempotencyKey = None,
) -> Response:
    """Checks a job as `POST /v1/checks` does, and keeps the answer in the history `history.name`. `Location` is its address."""
    state, key = state_of(request), idempotency_key
    with idempotency.alone(state, caller.id, key):
        digest = idempotency.body_digest({"check": body}) if key else ""
        if key:
            replay = await run_in_threadpool(_replayed, state, caller, key, digest)
            if replay is not None:
                return replay
        entry, asked = service.parse_entry(body)
        answer = all_unpacked(json.loads(await heavily_priced(request, check_request, document=asked)))
        return await run_in_threadpool(_kept, state, caller, entry, answer, key, digest)


def _replayed(state: ServerState, caller: Principal, key: str, digest: str) -> Response | None:
    with state.database.read() as session:
        return idempotency.replayed(session, caller.id, key, digest)


def _kept(
    state: ServerState, caller: Principal, entry: HistoryEntry, answer: dict[str, Any], key: str | None, digest: str
) -> Response:
    try:
        with state.database.write() as session:
            service.check_quota(session, state, caller)
            kept = service.keep(session, caller, entry, answer)
            location = f"/v1/checks/{kept.id}"
            if key:
                idempotency.remember(session, caller.id, key, digest, kept.id, location, plain(kept), status_code=201)
    except IntegrityError:
        if not key:
            raise
        replay = _replayed(state, caller, key, digest)  # another process was first with this key; ours is undone
        if replay is None:
            raise idempotency.in_progress() from None
        return replay
    return sent(kept, 201, {"Location": location, "ETag": etag.version_tag(kept.etag_version)})


@router.get("/histories", responses=described("invalid-input"))
def list_histories(request: Request, caller: Caller, after: Position, limit: Limit = 50) -> Listing[HistorySummary]:
    """Names under which checks are kept, each with its last check, that with the newest first."""
    with state_of(request).database.read() as session:
        return service.list_histories(session, caller, after=after, limit=limit)


@router.get("/checks", responses=described("invalid-input"))
def list_checks(
    request: Request,
    caller: Caller,
    after: Position,
    limit: Limit = 50,
    name: Wanted = None,
    branch: Wanted = None,
    status: Status | None = None,
    owner: Wanted = None,
    archived: Annotated[Archived, Query(description="`any`: archived checks and the others")] = "false",
) -> Listing[KeptCheckSummary]:
    """Kept checks that the caller may know of, newest first."""
    wanted = {"name": name, "branch": branch, "status": status, "owner": owner}
    with state_of(request).database.read() as session:
        return service.list_checks(session, caller, after=after, limit=limit, archived=archived, **wanted)


@router.get("/checks/{check_id}", response_model=KeptCheckDocument, responses={**described("not-found"), **etag.NOT_MODIFIED})
def get_check(request: Request, caller: Caller, check_id: CheckId, if_none_match: etag.IfNoneMatch = None) -> Response:
    """One kept check with the whole answer."""
    with state_of(request).database.read() as session:
        return _answer(service.get(session, caller, check_id), if_none_match)


@router.patch(
    "/checks/{check_id}",
    response_model=KeptCheckDocument,
    responses=described("not-found", "conflict", "stale", "invalid-input", "not-json", "too-large"),
)
def change_check(
    request: Request,
    caller: Caller,
    check_id: CheckId,
    body: Annotated[dict[str, Any], DescribedBy(KeptChanges), Body()],
    if_match: etag.IfMatch = None,
) -> Response:
    """Shares or archives a kept check; its result does not change."""
    changes, version = check(KeptChanges, body), etag.required_version(if_match)
    with state_of(request).database.write() as session:
        return _answer(service.change(session, caller, check_id, changes, version))


@router.delete("/checks/{check_id}", status_code=204, responses=described("not-found", "stale"))
def delete_check(request: Request, caller: Caller, check_id: CheckId, if_match: etag.IfMatch = None) -> None:
    """Deletes a kept check."""
    with state_of(request).database.write() as session:
        service.delete(session, caller, check_id, etag.required_version(if_match))


def _answer(kept: KeptCheckDocument, if_none_match: str | None = None) -> Response:
    return etag.answer(json_bytes(kept), if_none_match, etag.version_tag(kept.etag_version))
