"""``GET /v1/studies/{study_id}/plans/{plan_id}/timeline``."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic_core import to_json

from app.http import etag
from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.plans import timeline as service
from app.plans.endpoints import PlanId
from app.plans.timeline_schemas import PlanTimeline, TraceEvents
from app.studies.endpoints import StudyId

router = APIRouter(prefix="/studies/{study_id}/plans/{plan_id}", tags=["studies"], route_class=StrictRoute)


@router.get(
    "/timeline",
    response_model=PlanTimeline | TraceEvents,
    responses={304: {"description": "Not modified"}, **described("not-found", "conflict", "invalid-input")},
)
def get_plan_timeline(
    request: Request,
    study_id: StudyId,
    plan_id: PlanId,
    form: Annotated[
        Literal["columns", "chrome"],
        Query(alias="format", description="`chrome`: trace events for Perfetto and MindStudio Insight"),
    ] = "columns",
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """What every pipeline rank does in a step of the plan, on every stream, and the memory that it takes."""
    database = state_of(request).database
    if form == "chrome":
        content = service.plan_trace(database, study_id, plan_id).encode()
    else:
        content = to_json(service.columns(service.plan_step(database, study_id, plan_id)))
    return etag.answer(content, etag.content_tag(content), if_none_match)
