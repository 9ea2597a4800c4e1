"""``POST /v1/rl/estimates`` and ``/v1/rl/searches``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.rl.fields import RlJobDocument
from app.rl.schemas import RlDocument, RlSearchDocument
from app.rl.service import rl_request, rl_search_request
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/rl", tags=["rl"], route_class=StrictRoute)
_RESPONSES = described("invalid-input", "infeasible", "not-json", "too-large")


@router.post("/estimates", response_model=RlDocument, responses=_RESPONSES)
async def create_rl_estimate(request: Request, body: Annotated[dict[str, Any], DescribedBy(RlJobDocument), Body()]) -> Response:
    """Prices a step of post-training, as `meshplan rl estimate` does. Nothing is stored."""
    return as_json(await heavily_priced(request, rl_request, document=body))


@router.post("/searches", response_model=RlSearchDocument, responses=_RESPONSES)
async def create_rl_search(request: Request, body: Annotated[dict[str, Any], DescribedBy(RlJobDocument), Body()]) -> Response:
    """Searches the placements of a post-training job, as `meshplan rl search` does. Nothing is stored."""
    return as_json(await heavily_priced(request, rl_search_request, document=body))
