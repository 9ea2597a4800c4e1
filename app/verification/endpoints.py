"""``/v1/studies/{study_id}/plans/{plan_id}/verification``: counts of the framework beside the price of a plan."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.http.bodies import StrictRoute, sent
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.http.state import ServerState, state_of
from app.studies.endpoints import PlanId, StudyId
from app.text.json_documents import DescribedBy
from app.verification import kept
from app.verification.schemas import CountsDocument, KeptVerification
from documents.sentences import all_unpacked

router = APIRouter(prefix="/studies/{study_id}/plans/{plan_id}/verification", tags=["studies"], route_class=StrictRoute)


@router.get("", responses=described("not-found"))
def get_plan_verification(request: Request, study_id: StudyId, plan_id: PlanId) -> KeptVerification:
    """Counts of the framework beside the price of a plan, as they were kept; `verification` is null before there are any."""
    with state_of(request).database.read() as session:
        return kept.find(session, study_id, plan_id)


@router.put(
    "",
    response_model=KeptVerification,
    responses=described("not-found", "conflict", "invalid-input", "not-json", "too-large"),
)
async def keep_plan_verification(
    request: Request, study_id: StudyId, plan_id: PlanId, body: Annotated[dict[str, Any], DescribedBy(CountsDocument), Body()]
) -> Response:
    """Holds counts of `meshplan verify --save-counts` against the price of a plan and keeps both, in place of earlier ones.

    The counts are the caller's word; nothing is executed.
    """
    arguments = {"study_id": study_id, "plan_id": plan_id, "counts": body}
    document = all_unpacked(json.loads(await heavily_priced(request, kept.verify_counts, **arguments)))
    return sent(await run_in_threadpool(_kept, state_of(request), study_id, plan_id, document))


def _kept(state: ServerState, study_id: str, plan_id: str, document: dict[str, Any]) -> KeptVerification:
    with state.database.write() as session:
        return kept.keep(session, study_id, plan_id, document)
