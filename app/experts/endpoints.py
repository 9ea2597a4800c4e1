"""``POST /v1/experts/plan``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from app.experts.schemas import ExpertPlanDocument, ExpertPlanRequest
from app.experts.service import plan_request
from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.text.documents import DescribedBy

router = APIRouter(prefix="/experts", tags=["experts"], route_class=StrictRoute)


@router.post("/plan", responses=described("invalid-input", "not-json", "too-large"))
def create_expert_plan(
    request: Request, body: Annotated[dict[str, Any], DescribedBy(ExpertPlanRequest), Body()]
) -> ExpertPlanDocument:
    """Forecasts expert loads and plans which experts to move or copy, as `meshplan experts plan` does. Nothing is stored."""
    return plan_request(body, state_of(request).database)
