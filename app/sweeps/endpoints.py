"""``POST /v1/sweeps``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.jobs.fields import JobDocument
from app.sweeps.requests import sweep_request
from app.sweeps.schemas import SweepDocument
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/sweeps", tags=["sweeps"], route_class=StrictRoute)


@router.post("", response_model=SweepDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_sweep(request: Request, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]) -> Response:
    """Searches a job at up to 64 sizes, as `meshplan sweep` does, and stops after 60 s. Nothing is stored."""
    return as_json(await heavily_priced(request, sweep_request, document=body))
