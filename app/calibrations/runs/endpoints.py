"""``/v1/runs``: measured runs, predicted as they come in and kept for calibrations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request

from app.calibrations.runs import repository, service
from app.calibrations.runs.schemas import DeletedRuns, RunsDocument, RunsRequest, StoredRun
from app.calibrations.stored import stored_constants
from app.http.bodies import StrictRoute
from app.http.ownership import listed
from app.http.paging import Limit, Listing, Position
from app.http.problems import described
from app.http.security import Caller
from app.http.state import state_of
from app.storage.tables import MeasuredRun
from app.text.json_documents import DescribedBy

Predicted = Annotated[bool, Query(description="with the prediction of each by this version's shipped calibration")]
Named = Annotated[
    str | None,
    Query(max_length=64, description="with `predicted`: a stored calibration's id, for runs of its hardware and software"),
]
Owner = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$", description="whose runs")]
router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)


@router.post("", responses=described("invalid-input", "not-json", "too-large", "quota-exceeded"))
def add_runs(
    request: Request,
    caller: Caller,
    body: Annotated[dict[str, Any], DescribedBy(RunsRequest), Body()],
    visibility: Annotated[
        service.Shared, Query(description="to other keys: `public` runs are in their lists; without keys, everything is public")
    ] = "private",
) -> RunsDocument:
    """Predicts measured runs and stores those that can be read. Repeating it is safe: equal records are stored once."""
    runs, state = service.given_runs(body), state_of(request)
    with state.database.write() as session:
        stored = service.store_runs(session, state, caller, runs, visibility)
    refused = sum(run.row.refused is not None for run in runs)
    return RunsDocument(items=[run.item for run in runs], stored=stored, refused=refused)


@router.get("", responses=described("invalid-input"))
def list_runs(
    request: Request,
    caller: Caller,
    after: Position,
    limit: Limit = 50,
    predicted: Predicted = False,
    calibration: Named = None,
) -> Listing[StoredRun]:
    """Stored runs that the caller may know of, newest first, as they were given."""
    with state_of(request).database.read() as session:
        own = () if calibration is None else (stored_constants(session, calibration, "calibration"),)
        rows = repository.list_runs(session, after, limit + 1, listed(caller, MeasuredRun))
    return service.page(rows, limit, lambda record: service.prediction_of(record, own) if predicted else None)


@router.delete("/{record_sha256}", status_code=204, responses=described("not-found"))
def delete_run(
    request: Request, caller: Caller, record_sha256: Annotated[str, Path(max_length=64, description="a stored record's hash")]
) -> None:
    """Deletes a stored run: the caller's own or nobody's; for admins, everybody's. Calibrations fitted to it stay."""
    with state_of(request).database.write() as session:
        service.delete_run(session, caller, record_sha256)


@router.delete("", responses=described("invalid-input"))
def delete_runs(request: Request, caller: Caller, owner: Owner) -> DeletedRuns:
    """Deletes all runs of an owner, the caller or, for admins, anybody."""
    with state_of(request).database.write() as session:
        return service.delete_runs_of(session, caller, owner)
