"""``/v1/studies``: create, follow, cancel, resume, delete, and read what was found."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.exc import IntegrityError

from app.answers.targets import with_usual_target
from app.calibrations.stored import stored_calibrations
from app.http import etag
from app.http.bodies import StrictRoute, sent
from app.http.paging import MAX_POSITION, Limit, Listing, Position, encoded
from app.http.problems import ServiceError, described
from app.http.security import Caller, Principal, is_reading
from app.http.state import ServerState, state_of
from app.jobs.fields import MAX_RANKED, JobDocument
from app.jobs.requests import parse_request
from app.storage.away import DATABASE_AWAY
from app.studies import access, idempotency, service
from app.studies.errors import StudyNotFound
from app.studies.following import Feed, Following, News
from app.studies.schemas import (
    FinishedStudyDocument,
    Item,
    ListedStudy,
    Page,
    PlanListing,
    RankedPlan,
    State,
    StudyChanges,
    StudyDocument,
    Trial,
)
from app.studies.turns import MAX_PRIORITY
from app.text.documents import DescribedBy, json_bytes, plain
from documents.checking import check
from documents.errors import show
from search.result import Rejection

MAX_WAIT_S = 60
AGAIN_S = 1.0  # before a database that is away is asked again
KEPT = ("Location", "ETag", "Idempotency-Replayed")  # of the answer that created a study, in that with its plans
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")

Name = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
Found = described("not-found")
Changed = described("not-found", "conflict")

router = APIRouter(prefix="/studies", tags=["studies"], route_class=StrictRoute)


def _study_id(request: Request, caller: Caller, study_id: Annotated[str, Path(description="a study's id")]) -> str:
    """The id of a study that the caller may read or, where the request changes it, change."""
    if not IDENTIFIER.fullmatch(study_id):
        raise not_found("study", study_id)
    if not caller.is_admin:
        with state_of(request).database.read() as session:
            access.check(session, caller, study_id, is_reading=is_reading(request.method, request.url.path))
    return study_id


StudyId = Annotated[str, Depends(_study_id)]


def not_found(what: str, name: str) -> ServiceError:
    return ServiceError("not-found", f"There is no {what} {show(name)}.", parameter=f"{what}_id")


def _answer(study: StudyDocument, if_none_match: str | None = None) -> Response:
    return etag.answer(json_bytes(study), if_none_match, etag.version_tag(study.etag_version))


def _listing(page: Page[Item]) -> Listing[Item]:
    return Listing(items=list(page.items), next_cursor=encoded(page.next_after))


@router.post(
    "",
    status_code=202,
    response_model=StudyDocument,
    responses={
        200: {"description": "It finished within the time of `Prefer: wait`", "model": FinishedStudyDocument},
        **described("invalid-input", "key-reused", "request-in-progress", "not-json", "too-large", "quota-exceeded"),
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
    visibility: Annotated[access.Visibility, Query(description="to other keys; without keys, everything is public")] = "private",
    priority: Annotated[
        int, Query(ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="among the studies of the same owner that wait")
    ] = 0,
) -> Response:
    """Queues the search that the job describes. `Location` is where to follow it."""
    state = state_of(request)
    shared = {"visibility": visibility, "priority": priority}
    with idempotency.alone(state, caller.id, idempotency_key):
        created = await run_in_threadpool(_created, state, caller, body, shared, idempotency_key)
    wait = _WAIT.search(prefer.lower()) if prefer else None
    if wait is None:
        return created
    applied = min(int(wait[1]), MAX_WAIT_S)
    # Waiting holds no thread: a hundred patient clients must not keep the others from theirs.
    finished = await _finished(request, created.headers["Location"].rpartition("/")[2], applied)
    kept = {name: created.headers[name] for name in KEPT if name in created.headers}
    answer = created if finished is None else sent(finished, 200, kept)
    answer.headers["Preference-Applied"] = f"wait={applied}"
    return answer


def _created(state: ServerState, caller: Principal, body: dict[str, Any], shared: dict[str, Any], key: str | None) -> Response:
    digest = idempotency.body_digest(body) if key else ""
    if key:
        with state.database.read() as session:
            replay = idempotency.replayed(session, caller.id, key, digest)
        if replay is not None:
            return replay
    job = parse_request(body)
    own = stored_calibrations(state.database, job)
    job = with_usual_target(job, own)
    try:
        with state.database.write() as session:
            access.check_quota(session, state, caller)
            study = service.create_study(session, job, own, owner=caller.owner, **shared)
            location = f"/v1/studies/{study.id}"
            if key:
                idempotency.remember(session, caller.id, key, digest, study.id, location, plain(study))
    except IntegrityError:
        if not key:
            raise
        with state.database.read() as session:  # another process was first with this key; its study stands, ours is undone
            replay = idempotency.replayed(session, caller.id, key, digest)
        if replay is None:
            raise idempotency.in_progress() from None
        return replay
    return sent(study, 202, {"Location": location, "ETag": etag.version_tag(study.etag_version)})


async def _finished(request: Request, study_id: str, wait_s: float) -> FinishedStudyDocument | None:
    """The study with its plans, once it has finished; None if it has not in time."""
    state = state_of(request)
    found = await run_in_threadpool(_finished_now, state, study_id)
    if found is not None or not wait_s:
        return found
    with suppress(TimeoutError), _following(request).follow(study_id) as feed:
        async with asyncio.timeout(wait_s):
            while not state.stopping.is_set() and not (feed.latest and feed.latest.is_finished):
                await feed.change()
    return await run_in_threadpool(_finished_now, state, study_id)


def _following(request: Request) -> Following:
    following = request.app.state.following
    assert isinstance(following, Following)
    return following


def _finished_now(state: ServerState, study_id: str) -> FinishedStudyDocument | None:
    with state.database.read() as session:
        try:
            if service.get_state(session, study_id) not in service.FINISHED:
                return None
        except StudyNotFound:  # deleted meanwhile
            return None
        study = service.get_study(session, study_id)
        plans = service.list_plans(session, study_id, limit=MAX_RANKED).items
        return FinishedStudyDocument(**dict(study), plans=list(plans))


@router.get("", responses=described("invalid-input"))
def list_studies(
    request: Request,
    caller: Caller,
    after: Position,
    limit: Limit = 50,
    state: State | None = None,
    model: Name = None,
    hardware: Name = None,
    owner: Name = None,
) -> Listing[ListedStudy]:
    """Studies that the caller may know of, newest first."""
    filters = {"state": state, "model": model, "hardware": hardware, "owner": owner}
    with state_of(request).database.read() as session:
        return _listing(service.list_studies(session, after=after, limit=limit, seen=access.listed(caller), **filters))


@router.get("/{study_id}", response_model=StudyDocument, responses={**Found, **etag.NOT_MODIFIED})
def get_study(request: Request, study_id: StudyId, if_none_match: etag.IfNoneMatch = None) -> Response:
    """One study: state, progress, result, and all that is needed to run it again."""
    with state_of(request).database.read() as session:
        return _answer(service.get_study(session, study_id), if_none_match)


@router.delete("/{study_id}", status_code=204, responses={**described("not-found", "conflict", "stale")})
def delete_study(request: Request, study_id: StudyId, if_match: etag.IfMatch = None) -> None:
    """Deletes a study and everything it found. A running one is cancelled first."""
    with state_of(request).database.write() as session:
        service.delete_study(session, study_id, etag_version=etag.required_version(if_match))


@router.patch(
    "/{study_id}",
    response_model=StudyDocument,
    responses={**described("not-found", "conflict", "stale", "invalid-input", "not-json", "too-large")},
)
def change_study(
    request: Request,
    study_id: StudyId,
    body: Annotated[dict[str, Any], DescribedBy(StudyChanges), Body()],
    if_match: etag.IfMatch = None,
) -> Response:
    """Shares a study with other keys, or moves it among its owner's that wait."""
    changes = check(StudyChanges, body)
    with state_of(request).database.write() as session:
        version = etag.required_version(if_match)
        return _answer(service.change_study(session, study_id, **changes.model_dump(), etag_version=version))


@router.post("/{study_id}:cancel", response_model=StudyDocument, responses=Changed)
def cancel_study(request: Request, study_id: StudyId) -> Response:
    """Stops a study; what it found so far is kept."""
    with state_of(request).database.write() as session:
        study = service.cancel_study(session, study_id)
    return _answer(study)


@router.post(
    "/{study_id}:resume",
    response_model=StudyDocument,
    responses={**Changed, **described("not-found", "conflict", "quota-exceeded")},
)
def resume_study(request: Request, caller: Caller, study_id: StudyId) -> Response:
    """Queues a cancelled or failed study again, from its last checkpoint."""
    with state_of(request).database.write() as session:
        access.check_quota(session, state_of(request), caller, is_new=False)
        study = service.resume_study(session, study_id)
    return _answer(study)


@router.get("/{study_id}/plans", responses=described("not-found", "invalid-input"))
def list_plans(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> PlanListing:
    """Ranked plans, best first."""
    with state_of(request).database.read() as session:
        page = service.list_plans(session, study_id, after=after, limit=limit)
    return PlanListing(items=list(page.items), next_cursor=encoded(page.next_after))


@router.get("/{study_id}/ranking", responses=described("not-found", "invalid-input"))
def list_ranking(
    request: Request,
    study_id: StudyId,
    after: Position,
    limit: Annotated[int, Query(ge=1, le=MAX_RANKED, description="items a page")] = 200,
) -> Listing[RankedPlan]:
    """Ranked plans with what many of them are compared by, best first; `/plans` has all about each."""
    with state_of(request).database.read() as session:
        return _listing(service.list_ranking(session, study_id, after=after, limit=limit))


@router.get("/{study_id}/trials", responses=described("not-found", "invalid-input"))
def list_trials(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Listing[Trial]:
    """What a sampler evaluated, in order. An exhaustive search stores none."""
    with state_of(request).database.read() as session:
        return _listing(service.list_trials(session, study_id, after=after, limit=limit))


@router.get("/{study_id}/rejections", responses=described("not-found", "invalid-input"))
def list_rejections(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Listing[Rejection]:
    """Why strategies were illegal: rule, count and an example."""
    with state_of(request).database.read() as session:
        return _listing(service.list_rejections(session, study_id, after=after, limit=limit))


def _existing(request: Request, study_id: StudyId) -> str:
    with state_of(request).database.read() as session:
        service.get_state(session, study_id)
    return study_id


async def _feed(request: Request, study_id: Annotated[str, Depends(_existing)]) -> AsyncIterator[Feed]:
    with _following(request).follow(study_id) as feed:
        yield feed


@router.get("/{study_id}/events", response_class=EventSourceResponse, responses=described("not-found", "invalid-input"))
async def stream_events(
    request: Request,
    study_id: Annotated[str, Depends(_existing)],
    feed: Annotated[Feed, Depends(_feed)],
    last_event_id: Annotated[int, Header(ge=0, le=MAX_POSITION, description="resumes after this event")] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """`state` and `progress` events as they happen, until the study has finished (server-sent events)."""
    state, sequence = state_of(request), last_event_id
    while not state.stopping.is_set():
        news = feed.since(sequence)
        if news is None:  # nobody has followed the study before, or not so far back
            try:
                news = await run_in_threadpool(_news, state, study_id, sequence)
            except DATABASE_AWAY:
                await asyncio.sleep(AGAIN_S)
                continue
        for event in news.events:
            sequence = event.sequence
            yield ServerSentEvent(data=event.data, event=event.kind, id=str(sequence))
        if news.is_finished and not news.events:
            return
        if not news.events and (feed.latest is None or feed.latest.version == news.version):
            await feed.change()


def _news(state: ServerState, study_id: str, sequence: int) -> News:
    with state.database.read() as session:
        version, is_finished = service.versions(session, [study_id]).get(study_id, (None, True))
        events = () if version is None else service.events_since(session, study_id, sequence)
    return News(version, is_finished, events)
