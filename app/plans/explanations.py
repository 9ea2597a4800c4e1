"""``POST /v1/explanations``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.jobs.fields import JobDocument
from app.plans.explained import explain_request
from app.plans.schemas import ExplainDocument
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/explanations", tags=["explanations"], route_class=StrictRoute)


@router.post("", response_model=ExplainDocument, responses=described("invalid-input", "infeasible", "not-json", "too-large"))
async def create_explanation(request: Request, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]) -> Response:
    """Explains the job's strategy and compares it with the best plan of a search, as `meshplan explain` does. Nothing is stored.

    The search ends after 10 s. Without a strategy, its best plan is explained and compared with the next structure.
    """
    return as_json(await heavily_priced(request, explain_request, document=body))
