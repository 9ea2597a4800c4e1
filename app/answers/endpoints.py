"""``POST /v1/estimates``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.answers.schemas import EstimateDocument, EstimateRequest, EstimatesDocument
from app.answers.service import estimates
from app.http.bodies import StrictRoute, sent
from app.http.problems import described
from app.http.state import state_of
from app.text.documents import DescribedBy, json_bytes

router = APIRouter(prefix="/estimates", tags=["estimates"], route_class=StrictRoute)


@router.post(
    "", response_model=EstimateDocument | EstimatesDocument, responses=described("invalid-input", "not-json", "too-large")
)
def create_estimates(request: Request, body: Annotated[dict[str, Any], DescribedBy(EstimateRequest), Body()]) -> Response:
    """Prices one strategy (`strategy`) or up to 10,000 (`strategies`) of a job; nothing is stored."""
    state = state_of(request)
    if "strategies" in body:
        return sent(estimates(body, state.database))  # a union would be written once for each of its members
    content = state.kept_answers.get(json.dumps(body), lambda: json_bytes(estimates(body, state.database)))
    return Response(content, media_type="application/json")
