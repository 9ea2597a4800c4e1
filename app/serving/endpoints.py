"""``POST /v1/serving/estimates``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.serving.fields import ServingJobDocument
from app.serving.schemas import ServingDocument
from app.serving.service import serving_request
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/serving", tags=["serving"], route_class=StrictRoute)


@router.post(
    "/estimates", response_model=ServingDocument, responses=described("invalid-input", "infeasible", "not-json", "too-large")
)
async def create_serving_estimate(
    request: Request, body: Annotated[dict[str, Any], DescribedBy(ServingJobDocument), Body()]
) -> Response:
    """Predicts throughput and latency of a service, as `meshplan serving estimate` does. Nothing is stored."""
    return as_json(await heavily_priced(request, serving_request, document=body))
