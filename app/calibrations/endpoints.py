"""``/v1/calibrations``: constants fitted to the stored runs of one hardware and software stack."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.calibrations import service
from app.calibrations.fit import only_fit
from app.calibrations.schemas import CalibrationDocument, CalibrationRequest, CalibrationSummary, Fit
from app.http.bodies import StrictRoute, sent
from app.http.paging import Limit, Listing, Position
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.http.security import Caller, Principal
from app.http.state import ServerState, state_of
from app.text.json_documents import DescribedBy
from documents.sentences import all_unpacked

router = APIRouter(prefix="/calibrations", tags=["calibrations"], route_class=StrictRoute)


@router.post(
    "",
    status_code=201,
    response_model=CalibrationDocument,
    responses=described("invalid-input", "not-json", "too-large", "quota-exceeded"),
)
async def create_calibration(
    request: Request,
    caller: Caller,
    body: Annotated[dict[str, Any], DescribedBy(CalibrationRequest), Body()],
    visibility: Annotated[
        service.Shared, Query(description="to other keys: `public` ones are in their lists; without keys, everything is public")
    ] = "link",
) -> Response:
    """Fits the shipped calibration to the caller's newest runs, at most 200. Safe to repeat: the same runs give the same id."""
    state = state_of(request)
    hardware, stack, shared = await run_in_threadpool(_admitted, state, caller, body)
    with only_fit():
        asked = {"caller": caller, "hardware": hardware, "stack": stack, "shared": shared}
        fit = await heavily_priced(request, service.fit_of_stored, **asked)
    document = await run_in_threadpool(_stored, state, caller, fit, visibility)
    return sent(document, 201, {"Location": f"/v1/calibrations/{document.id}"})


def _admitted(state: ServerState, caller: Principal, body: dict[str, Any]) -> tuple[str, str, bool]:
    asked = service.parse_request(body)
    with state.database.write() as session:
        service.check_quota(session, state, caller)
    return asked


def _stored(state: ServerState, caller: Principal, fit: bytes, visibility: service.Shared) -> CalibrationDocument:
    found = Fit.model_validate(all_unpacked(json.loads(fit)))
    with state.database.write() as session:
        return service.store(session, caller, found, visibility)


@router.get("", responses=described("invalid-input"))
def list_calibrations(request: Request, caller: Caller, after: Position, limit: Limit = 50) -> Listing[CalibrationSummary]:
    """Calibrations that the caller may know of, newest first."""
    with state_of(request).database.read() as session:
        return service.list_calibrations(session, caller, after, limit)


@router.get("/{calibration_id}", responses=described("not-found"))
def get_calibration(
    request: Request, calibration_id: Annotated[str, Path(description="a calibration's id")]
) -> CalibrationDocument:
    """One calibration: its file, its fitted constants, and left-out errors before and after."""
    with state_of(request).database.read() as session:
        return service.get_calibration(session, calibration_id)


@router.delete("/{calibration_id}", status_code=204, responses=described("not-found"))
def delete_calibration(
    request: Request, caller: Caller, calibration_id: Annotated[str, Path(description="a calibration's id")]
) -> None:
    """Deletes a calibration of the caller or of nobody; for admins, anybody's. Finished studies keep their constants."""
    with state_of(request).database.write() as session:
        service.delete_calibration(session, caller, calibration_id)
