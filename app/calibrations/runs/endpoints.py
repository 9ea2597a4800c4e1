"""``/v1/runs``: measured runs, predicted as they come in and kept for calibrations."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.calibrations.runs import service
from app.calibrations.runs.schemas import DeletedRuns, PredictedRuns, RunsDocument, RunsRequest, StoredRun
from app.http.bodies import StrictRoute, as_json, sent
from app.http.paging import Limit, Listing, Position
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.http.security import Caller, Principal
from app.http.state import ServerState, state_of
from app.text.json_documents import DescribedBy
from documents.sentences import all_unpacked

Predicted = Annotated[bool, Query(description="with the prediction of each by this version's shipped calibration")]
Named = Annotated[
    str | None,
    Query(max_length=64, description="with `predicted`: a stored calibration's id, for runs of its hardware and software"),
]
Owner = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$", description="whose runs")]
router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)


@router.post("", response_model=RunsDocument, responses=described("invalid-input", "not-json", "too-large", "quota-exceeded"))
async def add_runs(
    request: Request,
    caller: Caller,
    body: Annotated[dict[str, Any], DescribedBy(RunsRequest), Body()],
    visibility: Annotated[
        service.Shared, Query(description="to other keys: `public` runs are in their lists; without keys, everything is public")
    ] = "private",
) -> Response:
    """Predicts measured runs and stores those that can be read. Repeating it is safe: equal records are stored once."""
    predicted = await heavily_priced(request, service.predicted_runs, body=body)
    return sent(await run_in_threadpool(_stored, state_of(request), caller, body["runs"], predicted, visibility))


def _stored(
    state: ServerState, caller: Principal, records: list[Any], predicted: bytes, visibility: service.Shared
) -> RunsDocument:
    runs = PredictedRuns.model_validate(all_unpacked(json.loads(predicted)))
    with state.database.write() as session:
        stored = service.store_runs(session, state, caller, records, runs, visibility)
    return RunsDocument(items=runs.items, stored=stored, refused=sum(item.refused is not None for item in runs.items))


@router.get("", response_model=Listing[StoredRun], responses=described("invalid-input"))
async def list_runs(
    request: Request,
    caller: Caller,
    after: Position,
    limit: Limit = 50,
    predicted: Predicted = False,
    calibration: Named = None,
) -> Response:
    """Stored runs that the caller may know of, newest first, as they were given."""
    asked: dict[str, Any] = {"caller": caller, "after": after, "limit": limit, "calibration": calibration}
    if predicted:
        return as_json(await heavily_priced(request, service.predicted_page, **asked))
    return await run_in_threadpool(lambda: sent(service.page(state_of(request).database, **asked)))


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
