"""``POST /v1/goodput``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.goodput.schemas import GoodputDocument
from app.goodput.service import goodput_request
from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.jobs.fields import JobDocument
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/goodput", tags=["goodput"], route_class=StrictRoute)


@router.post("", response_model=GoodputDocument, responses=described("invalid-input", "infeasible", "not-json", "too-large"))
async def create_goodput(request: Request, body: Annotated[dict[str, Any], DescribedBy(JobDocument), Body()]) -> Response:
    """Predicts the throughput of a plan on a site with failures, as `meshplan goodput` does. Nothing is stored."""
    return as_json(await heavily_priced(request, goodput_request, document=body))
