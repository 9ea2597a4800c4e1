"""Requests that become studies: one path for each kind, and one way for all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import IntegrityError

from app.http import etag
from app.http.bodies import StrictRoute, sent
from app.http.ownership import Visibility
from app.http.places import NoPlaceError
from app.http.problems import described
from app.http.security import Caller, Principal
from app.http.state import ServerState, state_of
from app.jobs.fields import MAX_RANKED, JobDocument
from app.rl.fields import RlJobDocument
from app.storage.database_errors import DATABASE_AWAY
from app.studies import access, idempotency, service
from app.studies.errors import StudyNotFound
from app.studies.event_followers import feeds_of
from app.studies.labels import NameText, NoteText, Tags
from app.studies.post_training_searches import RL
from app.studies.queue_order import MAX_PRIORITY
from app.studies.schemas import FinishedStudyDocument, StudyDocument
from app.studies.searches import SEARCH
from app.studies.sweeps import SWEEP
from app.studies.work import Kind
from app.text.json_documents import DescribedBy, plain
from documents.late_methods import dataclass
from documents.sentences import Sentence

MAX_WAIT_S = 60
KEPT = ("Location", "ETag", "Idempotency-Replayed")  # fields of the first answer that are repeated in the answer with plans
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])")

router = APIRouter(tags=["studies"], route_class=StrictRoute)
_CREATES: dict[str, Any] = {
    "status_code": 202,
    "response_model": StudyDocument,
    "responses": {
        200: {"description": Sentence("It finished within the time of `Prefer: wait`"), "model": FinishedStudyDocument},
        **described("invalid-input", "key-reused", "request-in-progress", "not-json", "too-large", "quota-exceeded"),
    },
}


@dataclass(frozen=True)
class Given:
    """What the query says of a study; the defaults are those of its parameters."""

    visibility: Visibility = "private"
    priority: int = 0
    name: str = ""
    tags: Sequence[str] = ()
    note: str = ""


_SILENT = Given()


@dataclass(frozen=True)
class Terms:
    """Header and query parameters of a request that creates a study."""

    idempotency_key: str | None
    wait_s: int | None
    given: Given


def _terms(
    idempotency_key: idempotency.IdempotencyKey = None,
    prefer: Annotated[
        str | None, Header(max_length=200, description=f"`wait=10` waits up to that many seconds, at most {MAX_WAIT_S}")
    ] = None,
    visibility: Annotated[
        Visibility, Query(description="to other keys; without keys, everything is public")
    ] = _SILENT.visibility,
    priority: Annotated[
        int, Query(ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="among the studies of the same owner that wait")
    ] = _SILENT.priority,
    name: Annotated[NameText, Query(description="what to call the study")] = _SILENT.name,
    tag: Annotated[Tags | None, Query(description="words under which to find it")] = None,
    note: Annotated[NoteText, Query(description="plain text about it")] = _SILENT.note,
) -> Terms:
    wait = _WAIT.search(prefer.lower()) if prefer else None
    wait_s = None if wait is None else min(int(wait[1]), MAX_WAIT_S)
    return Terms(idempotency_key, wait_s, Given(visibility, priority, name, tag or _SILENT.tags, note))


Said = Annotated[Terms, Depends(_terms)]


@router.post("/studies", **_CREATES)
async def create_study(
    request: Request, caller: Caller, said: Said, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]
) -> Response:
    """Queues the search that the job describes. `Location` is where to follow it."""
    return await _submitted(request, caller, SEARCH, body, said)


@router.post("/sweeps/studies", **_CREATES)
async def create_sweep_study(
    request: Request, caller: Caller, said: Said, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]
) -> Response:
    """Queues a sweep of up to 1,024 points, which `POST /v1/sweeps` also takes; `Location` is where to follow it."""
    return await _submitted(request, caller, SWEEP, body, said)


@router.post("/rl/studies", **_CREATES)
async def create_rl_study(
    request: Request, caller: Caller, said: Said, body: Annotated[dict[str, Any], DescribedBy(RlJobDocument), Body()]
) -> Response:
    """Queues a search of post-training placements, which `POST /v1/rl/searches` also takes; `Location` is where to follow it."""
    return await _submitted(request, caller, RL, body, said)


async def _submitted(request: Request, caller: Principal, kind: Kind, body: dict[str, Any], said: Terms) -> Response:
    state = state_of(request)
    with idempotency.alone(state, caller.id, said.idempotency_key):
        created = await run_in_threadpool(_created, state, caller, kind, body, said)
    if said.wait_s is None:
        return created
    # Waiting holds no thread: a hundred waiting clients must not block the others.
    try:
        finished = await _finished(request, caller, created.headers["Location"].rpartition("/")[2], said.wait_s)
    except (NoPlaceError, *DATABASE_AWAY):
        return created  # the study is stored, whatever comes of waiting; a preference may be ignored (RFC 7240)
    kept = {name: created.headers[name] for name in KEPT if name in created.headers}
    answer = created if finished is None else sent(finished, 200, kept)
    answer.headers["Preference-Applied"] = f"wait={said.wait_s}"
    return answer


def _created(state: ServerState, caller: Principal, kind: Kind, body: dict[str, Any], said: Terms) -> Response:
    key = said.idempotency_key
    digest = idempotency.body_digest(_question(kind, body, said)) if key else ""
    if key:
        with state.database.read() as session:
            replay = idempotency.replayed(session, caller.id, key, digest)
        if replay is not None:
            return replay
    asked = kind.asked(body, state.database)
    try:
        with state.database.write() as session:
            access.check_quota(session, state, caller)
            study = service.create_study(session, kind, asked, owner=caller.owner, **vars(said.given))
            location = f"/v1/studies/{study.id}"
            if key:
                idempotency.remember(session, caller.id, key, digest, study.id, location, plain(study))
    except IntegrityError:
        if not key:
            raise
        with state.database.read() as session:  # another process was first with this key; its study stays, ours is rolled back
            replay = idempotency.replayed(session, caller.id, key, digest)
        if replay is None:
            raise idempotency.in_progress() from None
        return replay
    return sent(study, 202, {"Location": location, "ETag": etag.version_tag(study.etag_version)})


def _question(kind: Kind, body: dict[str, Any], said: Terms) -> dict[str, Any]:
    """What a repeated request must repeat: kind, body, and the query parameters that were given."""
    question = body if kind is SEARCH else {kind.name: body}
    if said.given == _SILENT:
        return question
    given = {name: value for name, value in vars(said.given).items() if value != getattr(_SILENT, name)}
    return {"question": question, "given": {**given, "tags": list(said.given.tags)}}


async def _finished(request: Request, caller: Principal, study_id: str, wait_s: float) -> FinishedStudyDocument | None:
    """Wait for the study and return it with its plans; None if it has not finished in time.

    ``NoPlaceError`` if as many wait as may.
    """
    state = state_of(request)
    found = await run_in_threadpool(_finished_now, state, study_id)
    if found is not None or not wait_s:
        return found
    with suppress(TimeoutError), feeds_of(request).follow(study_id, caller) as follower:
        feed = follower.feed
        async with asyncio.timeout(wait_s):
            while follower.may_read() and not state.stopping.is_set() and not (feed.latest and feed.latest.is_finished):
                await feed.change()
    return await run_in_threadpool(_finished_now, state, study_id)


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
