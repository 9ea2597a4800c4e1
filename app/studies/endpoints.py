"""``/v1/studies``: create, follow, cancel, resume, delete, and read what was found."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic_core import to_json
from sqlalchemy.exc import IntegrityError

from app.answers.schemas import Plan, Rejection
from app.calibrations.stored import calibrations_of
from app.http import etag
from app.http.bodies import StrictRoute
from app.http.paging import Limit, Listing, Position, encoded
from app.http.problems import ServiceError, described
from app.http.security import Caller
from app.http.state import ServerState, state_of
from app.jobs.fields import JobDocument
from app.jobs.requests import parse_request
from app.studies import idempotency, service
from app.studies.schemas import FinishedStudyDocument, ListedStudy, RankedPlan, State, StudyDocument, Trial
from app.text.documents import DescribedBy
from documents.errors import show

MAX_WAIT_S = 60
MAX_RANKED = 1000  # as many as a study stores
POLL_S = 0.5
FINISHED = ("completed", "failed", "cancelled")
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")
_MAX_SEQUENCE = 2**53

Name = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
Found = described("not-found")
Changed = described("not-found", "conflict")

router = APIRouter(prefix="/studies", tags=["studies"], route_class=StrictRoute)


def _study_id(request: Request, study_id: Annotated[str, Path(description="a study's id")]) -> str:
    if not IDENTIFIER.fullmatch(study_id):
        raise not_found("study", study_id)
    return study_id


StudyId = Annotated[str, Depends(_study_id)]


def not_found(what: str, name: str) -> ServiceError:
    return ServiceError("not-found", f"There is no {what} {show(name)}.", parameter=f"{what}_id")


def _document(study: service.StudySummary) -> dict[str, Any]:
    return {name: value for name, value in asdict(study).items() if name != "etag_version"}


def _answer(study: service.StudyView, if_none_match: str | None = None) -> Response:
    return etag.answer(to_json(_document(study)), etag.version_tag(study.etag_version), if_none_match)


def _page(items: Any, next_after: int | None) -> Response:
    return Response(to_json({"items": items, "next_cursor": encoded(next_after)}), media_type="application/json")


@router.post(
    "",
    status_code=202,
    response_model=StudyDocument,
    responses={
        200: {"description": "It finished within the time of `Prefer: wait`", "model": FinishedStudyDocument},
        **described("invalid-input", "key-reused", "request-in-progress", "not-json", "too-large"),
    },
)
async def create_study(
    request: Request,
    caller: Caller,
    body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()],
    idempotency_key: idempotency.IdempotencyKey = None,
    prefer: Annotated[
        str | None, Header(max_length=200, description=f"`wait=10` waits up to that many seconds, at most {MAX_WAIT_S}")
    ] = None,
) -> Response:
    """Queues the search that the job describes. `Location` is where to follow it."""
    state = state_of(request)
    with idempotency.alone(state, caller, idempotency_key):
        created = await run_in_threadpool(_created, state, caller, body, idempotency_key)
    wait = _WAIT.search(prefer.lower()) if prefer else None
    if wait is None:
        return created
    applied = min(int(wait[1]), MAX_WAIT_S)
    # Waiting holds no thread: a hundred patient clients must not keep the others from theirs.
    finished = await _finished(state, created.headers["Location"].rpartition("/")[2], applied)
    answer = created if finished is None else Response(finished, 200, dict(created.headers), "application/json")
    if finished is not None:
        answer.headers["Content-Length"] = str(len(finished))
    answer.headers["Preference-Applied"] = f"wait={applied}"
    return answer


def _created(state: ServerState, caller: str, body: dict[str, Any], key: str | None) -> Response:
    digest = idempotency.body_digest(body) if key else ""
    if key:
        with state.database.read() as session:
            replay = idempotency.replayed(session, caller, key, digest)
        if replay is not None:
            return replay
    job = parse_request(body)
    try:
        with state.database.write() as session:
            study = service.create_study(session, job, calibrations_of(session, job))
            location, document = f"/v1/studies/{study.id}", _document(study)
            if key:
                idempotency.remember(session, caller, key, digest, study.id, location, document)
    except IntegrityError:
        if not key:
            raise
        with state.database.read() as session:  # another process was first with this key; its study stands, ours is undone
            replay = idempotency.replayed(session, caller, key, digest)
        if replay is None:
            raise idempotency.in_progress() from None
        return replay
    headers = {"Location": location, "ETag": etag.version_tag(study.etag_version)}
    return Response(to_json(document), 202, headers, "application/json")


async def _finished(state: ServerState, study_id: str, wait_s: float) -> bytes | None:
    """The study with its plans, once it has finished; None if it has not in time."""
    ends_s = time.monotonic() + wait_s
    while not state.stopping.is_set():
        found = await run_in_threadpool(_finished_now, state, study_id)
        left_s = ends_s - time.monotonic()
        if found is not None or left_s <= 0:
            return found
        await asyncio.sleep(min(POLL_S / 2, left_s))
    return None


def _finished_now(state: ServerState, study_id: str) -> bytes | None:
    with state.database.read() as session:
        try:
            if service.get_state(session, study_id) not in FINISHED:
                return None
        except service.StudyNotFound:  # deleted meanwhile
            return None
        study = service.get_study(session, study_id)
        plans = service.list_plans(session, study_id, limit=1000).items
        return to_json({**_document(study), "plans": plans})


@router.get("", response_model=Listing[ListedStudy], responses=described("invalid-input"))
def list_studies(
    request: Request,
    after: Position,
    limit: Limit = 50,
    state: State | None = None,
    model: Name = None,
    hardware: Name = None,
) -> Response:
    """Studies, newest first."""
    with state_of(request).database.read() as session:
        page = service.list_studies(session, after=after, limit=limit, state=state, model=model, hardware=hardware)
    return _page([_document(study) for study in page.items], page.next_after)


@router.get("/{study_id}", response_model=StudyDocument, responses={**Found, 304: {"description": "Not modified"}})
def get_study(
    request: Request, study_id: StudyId, if_none_match: Annotated[str | None, Header(max_length=1000)] = None
) -> Response:
    """One study: state, progress, result, and all that is needed to run it again."""
    with state_of(request).database.read() as session:
        return _answer(service.get_study(session, study_id), if_none_match)


@router.delete("/{study_id}", status_code=204, responses={**described("not-found", "conflict", "stale")})
def delete_study(request: Request, study_id: StudyId, if_match: Annotated[str | None, Header(max_length=1000)] = None) -> None:
    """Deletes a study and everything it found. A running one is cancelled first."""
    with state_of(request).database.write() as session:
        service.delete_study(session, study_id, etag_version=etag.required_version(if_match))


@router.post("/{study_id}:cancel", response_model=StudyDocument, responses=Changed)
def cancel_study(request: Request, study_id: StudyId) -> Response:
    """Stops a study; what it found so far is kept."""
    with state_of(request).database.write() as session:
        study = service.cancel_study(session, study_id)
    return _answer(study)


@router.post("/{study_id}:resume", response_model=StudyDocument, responses=Changed)
def resume_study(request: Request, study_id: StudyId) -> Response:
    """Queues a cancelled or failed study again, from its last checkpoint."""
    with state_of(request).database.write() as session:
        study = service.resume_study(session, study_id)
    return _answer(study)


@router.get("/{study_id}/plans", response_model=Listing[Plan], responses=described("not-found", "invalid-input"))
def list_plans(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Response:
    """Ranked plans, best first."""
    with state_of(request).database.read() as session:
        page = service.list_plans(session, study_id, after=after, limit=limit)
    return _page(page.items, page.next_after)


@router.get("/{study_id}/ranking", response_model=Listing[RankedPlan], responses=described("not-found", "invalid-input"))
def list_ranking(
    request: Request,
    study_id: StudyId,
    after: Position,
    limit: Annotated[int, Query(ge=1, le=MAX_RANKED, description="items a page")] = 200,
) -> Response:
    """Ranked plans with what many of them are compared by, best first; `/plans` has all about each."""
    with state_of(request).database.read() as session:
        page = service.list_ranking(session, study_id, after=after, limit=limit)
    return _page(page.items, page.next_after)


@router.get("/{study_id}/trials", response_model=Listing[Trial], responses=described("not-found", "invalid-input"))
def list_trials(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Response:
    """What a sampler evaluated, in order. An exhaustive search stores none."""
    with state_of(request).database.read() as session:
        page = service.list_trials(session, study_id, after=after, limit=limit)
    return _page(page.items, page.next_after)


@router.get("/{study_id}/rejections", response_model=Listing[Rejection], responses=described("not-found", "invalid-input"))
def list_rejections(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Response:
    """Why strategies were illegal: rule, count and an example."""
    with state_of(request).database.read() as session:
        page = service.list_rejections(session, study_id, after=after, limit=limit)
    return _page(page.items, page.next_after)


def _existing(request: Request, study_id: StudyId) -> str:
    with state_of(request).database.read() as session:
        service.get_state(session, study_id)
    return study_id


@router.get("/{study_id}/events", response_class=EventSourceResponse, responses=described("not-found", "invalid-input"))
async def stream_events(
    request: Request,
    study_id: Annotated[str, Depends(_existing)],
    last_event_id: Annotated[int, Header(ge=0, le=_MAX_SEQUENCE, description="resumes after this event")] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """`state` and `progress` events as they happen, until the study has finished (server-sent events)."""
    state, sequence = state_of(request), last_event_id
    while not state.stopping.is_set():
        events, is_finished = await run_in_threadpool(_new_events, state, study_id, sequence)
        for event in events:
            sequence = event.sequence
            yield ServerSentEvent(data=event.data, event=event.kind, id=str(sequence))
        if is_finished and not events:
            return
        if not events:
            await asyncio.sleep(POLL_S)


def _new_events(state: ServerState, study_id: str, sequence: int) -> tuple[tuple[service.EventView, ...], bool]:
    with state.database.read() as session:
        try:
            is_finished = service.get_state(session, study_id) in FINISHED
            return service.events_since(session, study_id, sequence), is_finished
        except service.StudyNotFound:  # deleted meanwhile
            return (), True
