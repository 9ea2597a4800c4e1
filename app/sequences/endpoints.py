"""``POST /v1/sequences/plan``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.sequences.schemas import SequencePlanDocument, SequencePlanRequest
from app.sequences.service import plan_request
from app.text.documents import DescribedBy

router = APIRouter(prefix="/sequences", tags=["sequences"], route_class=StrictRoute)


@router.post("/plan", responses=described("invalid-input", "not-json", "too-large"))
def create_sequence_plan(
    request: Request, body: Annotated[dict[str, Any], DescribedBy(SequencePlanRequest), Body()]
) -> SequencePlanDocument:
    """Prices the order of sequences over replicas and micro batches, as `meshplan sequences plan` does. Nothing is stored."""
    return plan_request(body, state_of(request).database)
