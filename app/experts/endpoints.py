"""``POST /v1/experts/plans``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.experts.schemas import ExpertPlanDocument, ExpertPlanRequest
from app.experts.service import plan_request
from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/experts", tags=["experts"], route_class=StrictRoute)


@router.post("/plans", response_model=ExpertPlanDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_expert_plan(
    request: Request, body: Annotated[dict[str, Any], DescribedBy(ExpertPlanRequest), Body()]
) -> Response:
    """Forecasts expert loads and plans which experts to move or copy, as `meshplan experts plan` does. Nothing is stored."""
    return as_json(await heavily_priced(request, plan_request, document=body))
