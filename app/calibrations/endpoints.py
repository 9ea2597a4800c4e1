"""``/v1/calibrations``: constants fitted to the stored runs of one hardware and software stack."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response

from app.calibrations import service
from app.calibrations.fit import fit_of_records
from app.calibrations.schemas import CalibrationDocument, CalibrationRequest, CalibrationSummary
from app.http.bodies import StrictRoute
from app.http.paging import Limit, Listing, Position
from app.http.problems import described
from app.http.state import state_of
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/calibrations", tags=["calibrations"], route_class=StrictRoute)


@router.post("", status_code=201, responses=described("invalid-input", "not-json", "too-large"))
def create_calibration(
    request: Request, response: Response, body: Annotated[dict[str, Any], DescribedBy(CalibrationRequest), Body()]
) -> CalibrationDocument:
    """Fits the shipped calibration to the newest stored runs, at most 200. Safe to repeat: the same runs give the same id."""
    hardware, stack = service.parse_request(body)
    database = state_of(request).database
    with database.read() as session:
        records, warnings = service.site_records(session, hardware, stack)
    outcome = fit_of_records(records, hardware, stack)
    with database.write() as session:
        document = service.store(session, outcome, warnings)
    response.headers["Location"] = f"/v1/calibrations/{document.id}"
    return document


@router.get("", responses=described("invalid-input"))
def list_calibrations(request: Request, after: Position, limit: Limit = 50) -> Listing[CalibrationSummary]:
    """Calibrations, newest first."""
    with state_of(request).database.read() as session:
        return service.list_calibrations(session, after, limit)


@router.get("/{calibration_id}", responses=described("not-found"))
def get_calibration(
    request: Request, calibration_id: Annotated[str, Path(description="a calibration's id")]
) -> CalibrationDocument:
    """One calibration: its file, its fitted constants, and left-out errors before and after."""
    with state_of(request).database.read() as session:
        return service.get_calibration(session, calibration_id)
