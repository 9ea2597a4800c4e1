"""``POST /v1/checks``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.checks.schemas import CheckDocument, CheckRequest
from app.checks.service import check_request
from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/checks", tags=["checks"], route_class=StrictRoute)


@router.post("", response_model=CheckDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_check(request: Request, body: Annotated[dict[str, Any], DescribedBy(CheckRequest), Body()]) -> Response:
    """Checks a job against a budget and a baseline, as `meshplan check` does. A broken budget has status 200. Nothing is kept."""
    return as_json(await heavily_priced(request, check_request, document=body))
