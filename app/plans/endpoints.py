"""``/v1/studies/{study_id}/plans/{plan_id}``: one plan, its launch arguments, its analysis and its timeline."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from app.answers.schemas import PlanAsStored
from app.http import etag
from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.http.state import state_of
from app.language.choice import of_header
from app.plans import service
from app.plans.schemas import PlanAnalysis, PlanLaunch, PlanTimeline, TraceEvents
from app.studies import service as studies
from app.studies.endpoints import PlanId, StudyId

router = APIRouter(prefix="/studies/{study_id}/plans/{plan_id}", tags=["studies"], route_class=StrictRoute)


@router.get("", responses=described("not-found"))
def get_plan(request: Request, study_id: StudyId, plan_id: PlanId) -> PlanAsStored:
    """A ranked plan."""
    with state_of(request).database.read() as session:
        return studies.get_plan(session, study_id, plan_id)


@router.get("/launch", responses=described("not-found"))
def get_plan_launch(request: Request, study_id: StudyId, plan_id: PlanId) -> PlanLaunch:
    """The arguments that start a plan, by framework, and the launch files with them."""
    language = of_header(request.headers.get("accept-language", ""))
    return service.launch(state_of(request).database, study_id, plan_id, language)


@router.get("/analysis", response_model=PlanAnalysis, responses=described("not-found", "conflict"))
async def get_plan_analysis(request: Request, study_id: StudyId, plan_id: PlanId) -> Response:
    """Analysis of a plan: pipeline ranks, traffic by network tier, effects of single changes, and sensitivity."""
    return as_json(await heavily_priced(request, service.analysis, study_id=study_id, plan_id=plan_id))


@router.get(
    "/timeline",
    response_model=PlanTimeline | TraceEvents,
    responses={**etag.NOT_MODIFIED, **described("not-found", "conflict", "invalid-input")},
)
async def get_plan_timeline(
    request: Request,
    study_id: StudyId,
    plan_id: PlanId,
    form: Annotated[
        Literal["columns", "chrome"],
        Query(alias="format", description="`chrome`: trace events for Perfetto and MindStudio Insight"),
    ] = "columns",
    if_none_match: etag.IfNoneMatch = None,
) -> Response:
    """Timeline of a step of the plan: the tasks of every pipeline rank by stream, and the memory in use."""
    played = service.plan_trace if form == "chrome" else service.plan_timeline
    content = await heavily_priced(request, played, study_id=study_id, plan_id=plan_id)
    return etag.answer(content, if_none_match)
