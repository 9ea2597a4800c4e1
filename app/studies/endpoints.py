"""``/v1/studies``: follow, cancel, resume and delete studies, and read their results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.http import etag
from app.http.bodies import StrictRoute
from app.http.ownership import listed
from app.http.paging import MAX_POSITION, Limit, Listing, Position, Wanted, encoded
from app.http.places import NoPlaceError
from app.http.problems import ServiceError, described
from app.http.security import Caller, is_reading
from app.http.state import ServerState, state_of
from app.jobs.fields import MAX_RANKED
from app.storage.database_errors import DATABASE_AWAY
from app.storage.tables import Study
from app.studies import access, service
from app.studies.event_followers import Follower, News, feeds_of, no_place
from app.studies.labels import SearchText, Tags
from app.studies.schemas import (
    Item,
    KindName,
    Page,
    PlanListing,
    PointListing,
    QueuePlace,
    RankedPlan,
    State,
    StudyChanges,
    StudyDocument,
    StudyListing,
    Trial,
)
from app.text.json_documents import DescribedBy, json_bytes
from documents.checking import check
from documents.errors import show
from documents.sentences import Sentence
from search.results.search_result import Rejection

AGAIN_S = 1.0  # seconds between two queries while the database is away
_SEARCH_RETRY_S = 2
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")

Found = described("not-found")
Changed = described("not-found", "conflict")

router = APIRouter(prefix="/studies", tags=["studies"], route_class=StrictRoute)


def _study_id(request: Request, caller: Caller, study_id: Annotated[str, Path(description="a study's id")]) -> str:
    """Id of a study that the caller may read or, for a request that changes it, change."""
    if not IDENTIFIER.fullmatch(study_id):
        raise not_found("study", study_id)
    if not caller.is_admin:
        with state_of(request).database.read() as session:
            access.check(session, caller, study_id, is_reading=is_reading(request.method, request.url.path))
    return study_id


StudyId = Annotated[str, Depends(_study_id)]


def _plan_id(request: Request, plan_id: Annotated[str, Path(description="a plan's id")]) -> str:
    if not IDENTIFIER.fullmatch(plan_id):
        raise not_found("plan", plan_id)
    return plan_id


PlanId = Annotated[str, Depends(_plan_id)]


def not_found(what: str, name: str) -> ServiceError:
    return ServiceError("not-found", Sentence("There is no {} {}.", what, show(name)), parameter=f"{what}_id")


def _answer(study: StudyDocument, if_none_match: str | None = None) -> Response:
    return etag.answer(json_bytes(study), if_none_match, etag.version_tag(study.etag_version))


def _listing(page: Page[Item]) -> Listing[Item]:
    return Listing(items=list(page.items), next_cursor=encoded(page.next_after))


@router.get("", responses=described("invalid-input"))
async def list_studies(
    request: Request,
    caller: Caller,
    after: Position,
    limit: Limit = 50,
    state: State | None = None,
    kind: KindName | None = None,
    model: Wanted = None,
    hardware: Wanted = None,
    owner: Wanted = None,
    tag: Annotated[Tags | None, Query(description="of several, the study has each")] = None,
    archived: Annotated[service.Archived, Query(description="`any`: archived studies and the others")] = "false",
    text: Annotated[SearchText, Query(description="words in name, tags, note, id, model, hardware or error")] = "",
    counts: Annotated[bool, Query(description="count all that match, too")] = False,
) -> StudyListing:
    """Studies that the caller may know of, newest first."""
    chosen = service.StudyFilter(
        state=state, kind=kind, model=model, hardware=hardware, owner=owner, tags=tag or (), archived=archived, text=text
    )
    server, seen = state_of(request), listed(caller, Study)

    def found() -> StudyListing:
        with server.database.read() as session:
            page = service.list_studies(session, chosen, after=after, limit=limit, seen=seen)
            numbers = service.count_studies(session, chosen, seen=seen) if counts else None
        return StudyListing.model_validate({**vars(_listing(page)), "counts": numbers})

    if not text:
        return await run_in_threadpool(found)
    # Searches have threads of their own: many slow ones leave threads and connections to everybody else.
    try:
        with server.searches.places.taken(caller.owner):
            return await to_thread.run_sync(found, limiter=server.searches.threads)
    except NoPlaceError:
        raise ServiceError(
            "unavailable", Sentence("As many searches run as may."), headers={"Retry-After": str(_SEARCH_RETRY_S)}
        ) from None


@router.get("/{study_id}", response_model=StudyDocument, responses={**Found, **etag.NOT_MODIFIED})
def get_study(request: Request, study_id: StudyId, if_none_match: etag.IfNoneMatch = None) -> Response:
    """A study: state, progress, result, and the inputs to run it again."""
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
    """Names, tags, annotates, archives or shares a study, or changes its priority among the waiting studies of its owner."""
    changes = check(StudyChanges, body)
    with state_of(request).database.write() as session:
        version = etag.required_version(if_match)
        return _answer(service.change_study(session, study_id, **changes.model_dump(), etag_version=version))


@router.post("/{study_id}:cancel", response_model=StudyDocument, responses=Changed)
def cancel_study(request: Request, study_id: StudyId) -> Response:
    """Stops a study; its results so far are kept."""
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
    """Ranked plans with the fields for comparing many, best first; `/plans` has all fields."""
    with state_of(request).database.read() as session:
        return _listing(service.list_ranking(session, study_id, after=after, limit=limit))


@router.get("/{study_id}/points", responses=described("not-found", "invalid-input"))
def list_points(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> PointListing:
    """Finished points of a sweep, in order, also while it runs; the result of the sweep summarises them."""
    with state_of(request).database.read() as session:
        page = service.list_points(session, study_id, after=after, limit=limit)
    return PointListing(items=list(page.items), next_cursor=encoded(page.next_after))


@router.get("/{study_id}/trials", responses=described("not-found", "invalid-input"))
def list_trials(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Listing[Trial]:
    """Trials of a sampler, in order. An exhaustive search stores none."""
    with state_of(request).database.read() as session:
        return _listing(service.list_trials(session, study_id, after=after, limit=limit))


@router.get("/{study_id}/queue", responses=described("not-found"))
def get_queue_place(request: Request, study_id: StudyId) -> QueuePlace:
    """How many studies are taken before a queued one."""
    with state_of(request).database.read() as session:
        return service.queue_place(session, study_id)


@router.get("/{study_id}/rejections", responses=described("not-found", "invalid-input"))
def list_rejections(request: Request, study_id: StudyId, after: Position, limit: Limit = 50) -> Listing[Rejection]:
    """Reasons why strategies were illegal: rule, count and an example."""
    with state_of(request).database.read() as session:
        return _listing(service.list_rejections(session, study_id, after=after, limit=limit))


def _existing(request: Request, study_id: StudyId) -> str:
    with state_of(request).database.read() as session:
        service.get_state(session, study_id)
    return study_id


async def _follower(request: Request, caller: Caller, study_id: Annotated[str, Depends(_existing)]) -> AsyncIterator[Follower]:
    with ExitStack() as held:
        try:
            follower = held.enter_context(feeds_of(request).follow(study_id, caller))
        except NoPlaceError:
            raise no_place() from None
        yield follower


@router.get("/{study_id}/events", response_class=EventSourceResponse, responses=described("not-found", "invalid-input"))
async def stream_events(
    request: Request,
    study_id: Annotated[str, Depends(_existing)],
    follower: Annotated[Follower, Depends(_follower)],
    last_event_id: Annotated[int, Header(ge=0, le=MAX_POSITION, description="resumes after this event")] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """`state` and `progress` events as they happen (server-sent events).

    The stream ends when the study has finished, and when the caller may not read it any more.
    """
    state, feed, sequence = state_of(request), follower.feed, last_event_id
    while follower.may_read() and not state.stopping.is_set():
        news = feed.since(sequence)
        if news is None:  # nobody has followed the study before, or not so far back
            try:
                news = await run_in_threadpool(_news, state, study_id, sequence)
            except DATABASE_AWAY:
                await asyncio.sleep(AGAIN_S)
                continue
        for event in news.events:
            if not follower.may_read():
                return
            sequence = event.sequence
            yield ServerSentEvent(data=event.data, event=event.kind, id=str(sequence))
        if news.is_finished and not news.events:
            return
        if not news.events and (feed.latest is None or feed.latest.version == news.version):
            await feed.change()


def _news(state: ServerState, study_id: str, sequence: int) -> News:
    with state.database.read() as session:
        version = service.versions(session, [study_id]).get(study_id)
        if version is None:
            return News(None, is_finished=True)
        return News(version.number, version.is_finished, service.events_since(session, study_id, sequence))
