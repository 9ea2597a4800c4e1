"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from app.http.metrics import CONTENT_TYPE_LATEST
from app.http.problems import ServiceError, described
from app.http.security import Caller
from app.http.state import state_of
from app.storage.session import is_reachable
from app.storage.tables import STATES
from app.storage.upgrade import check_current
from app.studies import service
from documents.errors import InputError
from meshplan import __version__

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str
    version: str


@router.get("/healthz", responses=described())
async def healthz() -> Health:  # in the event loop: it waits for no thread
    """The process answers."""
    return Health(status="ok", version=__version__)


@router.get("/readyz", responses=described("unavailable"))
def readyz(request: Request) -> Health:
    """The database answers, and its schema is this version's."""
    database = state_of(request).database
    if state_of(request).stopping.is_set():
        raise ServiceError("unavailable", "The server is shutting down.")
    if not is_reachable(database):
        raise ServiceError("unavailable", "The database does not answer.", headers={"Retry-After": "5"})
    try:
        check_current(database)
    except InputError as error:
        raise ServiceError("unavailable", str(error)) from None
    return Health(status="ready", version=__version__)


@router.get("/metrics", response_class=Response, responses={**described(), 200: {"content": {"text/plain": {}}}})
def metrics(request: Request, caller: Caller) -> Response:
    """Counters in Prometheus' text format."""
    state = state_of(request)
    with state.database.read() as session:
        studies = service.count_by_state(session)
    return Response(state.metrics.text({**dict.fromkeys(STATES, 0), **studies}), media_type=CONTENT_TYPE_LATEST)
