"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import time

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from app.http.metrics import CONTENT_TYPE_LATEST
from app.http.ownership import listed
from app.http.problems import ServiceError, described
from app.http.security import METRICS_PATH, Caller
from app.http.state import state_of
from app.storage.database_errors import DATABASE_AWAY, told
from app.storage.probes import check_whole, check_writable
from app.storage.session import Database, StorageError
from app.storage.tables import STATES, Study
from app.storage.upgrade import check_current
from app.studies import service
from documents.sentences import Sentence
from meshplan import __version__

_LOOK_S = 1.0  # seconds between two checks of the database
_READ_THROUGH_S = 60.0  # seconds between two checks of the whole file

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str
    version: str


@router.get("/healthz", responses=described())
async def healthz() -> Health:  # in the event loop, so that no thread is needed
    """The process answers."""
    return Health(status="ok", version=__version__)


class Readiness:
    """State of the database, checked at most once a second in a thread of its own, for any number of callers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = CapacityLimiter(1)
        self._looked_s = self._read_through_s = float("-inf")
        self._problem: tuple[str, str | None] | None = None

    async def problem(self) -> tuple[str, str | None] | None:
        """The fault with a remedy, or None."""
        return await to_thread.run_sync(self._looked, limiter=self._thread)

    def _looked(self) -> tuple[str, str | None] | None:
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self._problem = self._look()
            self._looked_s = time.monotonic()
        return self._problem

    def _look(self) -> tuple[str, str | None] | None:
        try:
            check_current(self._database)
            check_writable(self._database)
            if time.monotonic() - self._read_through_s >= _READ_THROUGH_S:
                check_whole(self._database)
                self._read_through_s = time.monotonic()
        except DATABASE_AWAY as error:
            return told(error)
        except StorageError as error:
            away = error.__cause__
            return told(away) if isinstance(away, DATABASE_AWAY) else (str(error), None)
        return None


@router.get("/readyz", responses=described("unavailable"))
async def readyz(request: Request) -> Health:
    """The database answers, accepts writes, and has the schema of this version."""
    if state_of(request).stopping.is_set():
        raise ServiceError("unavailable", Sentence("The server is shutting down."))
    problem = await request.app.state.readiness.problem()
    if problem is not None:
        raise ServiceError("unavailable", problem[0], hint=problem[1], headers={"Retry-After": "5"})
    return Health(status="ready", version=__version__)


@router.get(METRICS_PATH, response_class=Response, responses={**described(), 200: {"content": {"text/plain": {}}}})
def metrics(request: Request, caller: Caller) -> Response:
    """Counters in Prometheus' text format: all of them for the scopes `metrics` and `admin`, for others their own studies."""
    state, is_of_all = state_of(request), "metrics" in caller.scopes
    with state.database.read() as session:
        counted = service.count_by_state(session, () if is_of_all else listed(caller, Study))
        studies = {**dict.fromkeys(STATES, 0), **counted}
        text = state.metrics.text(studies, service.figures(session)) if is_of_all else state.metrics.text_of_owner(studies)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
