"""``/v1/runs``: measured runs, predicted as they come in and kept for calibrations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from app.calibrations.runs import repository, service
from app.calibrations.runs.schemas import RunsDocument, RunsRequest, StoredRun
from app.calibrations.stored import stored_constants
from app.http.bodies import StrictRoute
from app.http.paging import Limit, Listing, Position
from app.http.problems import described
from app.http.state import state_of
from app.text.json_documents import DescribedBy

Predicted = Annotated[bool, Query(description="with the prediction of each by this version's shipped calibration")]
Named = Annotated[
    str | None,
    Query(max_length=64, description="with `predicted`: a stored calibration's id, for runs of its hardware and software"),
]
router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)


@router.post("", responses=described("invalid-input", "not-json", "too-large"))
def add_runs(request: Request, body: Annotated[dict[str, Any], DescribedBy(RunsRequest), Body()]) -> RunsDocument:
    """Predicts measured runs and stores those that can be read. Repeating it is safe: equal records are stored once."""
    runs = service.given_runs(body)
    with state_of(request).database.write() as session:
        stored = service.store_runs(session, runs)
    refused = sum(run.row.refused is not None for run in runs)
    return RunsDocument(items=[run.item for run in runs], stored=stored, refused=refused)


@router.get("", responses=described("invalid-input"))
def list_runs(
    request: Request, after: Position, limit: Limit = 50, predicted: Predicted = False, calibration: Named = None
) -> Listing[StoredRun]:
    """Stored runs, newest first, as they were given."""
    with state_of(request).database.read() as session:
        own = () if calibration is None else (stored_constants(session, calibration, "calibration"),)
        rows = repository.list_runs(session, after, limit + 1)
    return service.page(rows, limit, lambda record: service.prediction_of(record, own) if predicted else None)
