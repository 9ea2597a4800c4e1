"""``POST /v1/explanations``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.jobs.fields import JobDocument
from app.plans.explained import explain_request
from app.plans.schemas import ExplainDocument
from app.text.documents import DescribedBy

router = APIRouter(prefix="/explanations", tags=["explanations"], route_class=StrictRoute)


@router.post("", responses=described("invalid-input", "not-json", "too-large"))
def create_explanation(request: Request, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]) -> ExplainDocument:
    """Explains the job's strategy beside the best of a search, as `meshplan explain` does; nothing is stored.

    The search is cut after 10 s. Without a strategy its best plan is explained beside the next structure.
    """
    return explain_request(body, state_of(request).database)
