"""``/v1/calibrations``: constants fitted to the stored runs of one hardware and software stack."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from app.calibrations import service
from app.calibrations.fit import fit_of_records
from app.calibrations.schemas import CalibrationDocument, CalibrationRequest, CalibrationSummary
from app.http.bodies import StrictRoute
from app.http.paging import Limit, Listing, Position
from app.http.problems import described
from app.http.security import Caller
from app.http.state import state_of
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/calibrations", tags=["calibrations"], route_class=StrictRoute)


@router.post("", status_code=201, responses=described("invalid-input", "not-json", "too-large", "quota-exceeded"))
def create_calibration(
    request: Request,
    caller: Caller,
    response: Response,
    body: Annotated[dict[str, Any], DescribedBy(CalibrationRequest), Body()],
    visibility: Annotated[
        service.Shared, Query(description="to other keys: `public` ones are in their lists; without keys, everything is public")
    ] = "link",
) -> CalibrationDocument:
    """Fits the shipped calibration to the caller's newest runs, at most 200. Safe to repeat: the same runs give the same id."""
    hardware, stack, shared = service.parse_request(body)
    state = state_of(request)
    with state.database.write() as session:
        service.check_quota(session, state, caller)
    with state.database.read() as session:
        records, warnings = service.site_records(session, caller, hardware, stack, shared=shared)
    outcome = fit_of_records(records, hardware, stack)
    with state.database.write() as session:
        document = service.store(session, caller, outcome, warnings, visibility)
    response.headers["Location"] = f"/v1/calibrations/{document.id}"
    return document


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
