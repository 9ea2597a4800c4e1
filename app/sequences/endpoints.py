"""``POST /v1/sequences/plans``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.sequences.schemas import SequencePlanDocument, SequencePlanRequest
from app.sequences.service import plan_request
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=StrictRoute)


@router.post("/plans", response_model=SequencePlanDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_sequence_plan(
    request: Request, body: Annotated[dict[str, Any], DescribedBy(SequencePlanRequest), Body()]
) -> Response:
    """Prices the order of sequences over replicas and micro batches, as `meshplan sequences plan` does. Nothing is stored."""
    return as_json(await heavily_priced(request, plan_request, document=body))
