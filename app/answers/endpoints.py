"""``POST /v1/estimates``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from app.answers.parts import PARTS, Explain, explained_parts
from app.answers.schemas import EstimateDocument, EstimateRequest, EstimatesDocument
from app.answers.service import estimates
from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import estimated, heavily_priced
from app.http.problems import described
from app.http.state import state_of
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/estimates", tags=["estimates"], route_class=StrictRoute)


@router.post(
    "", response_model=EstimateDocument | EstimatesDocument, responses=described("invalid-input", "not-json", "too-large")
)
async def create_estimates(
    request: Request,
    body: Annotated[dict[str, Any], DescribedBy(EstimateRequest), Body()],
    explain: Annotated[
        list[Explain] | None,
        Query(
            max_length=len(PARTS),
            description="parts of the answer that take many prices: `assumptions` (the effects of defaults), `software`, "
            "`next_runs`; `none` leaves all out and is the fastest by far; without this parameter, `all`",
        ),
    ] = None,
) -> Response:
    """Prices one strategy (`strategy`) or up to 10,000 (`strategies`) of a job; nothing is stored."""
    state, parts = state_of(request), explained_parts(body, explain)
    if body.get("strategies") is not None:
        return as_json(await heavily_priced(request, estimates, document=body, parts=parts))
    question = json.dumps([body, sorted(parts)])
    content = state.kept_answers.find(question)
    if content is None:
        is_light = all(body.get(name) in (None, False) for name in ("simulate", "memory_plan"))
        content = await (
            estimated(request, body, parts) if is_light else heavily_priced(request, estimates, document=body, parts=parts)
        )
        state.kept_answers.keep(question, content)
    return as_json(content)
