"""``POST /v1/scripts``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.launch_scripts.schemas import ScriptRequest, TuneDocument
from app.launch_scripts.service import tune_request
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/scripts", tags=["scripts"], route_class=StrictRoute)


@router.post("", response_model=TuneDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_tuning(request: Request, body: Annotated[dict[str, Any], DescribedBy(ScriptRequest), Body()]) -> Response:
    """Prices a launch script's own plan and finds the best for the same model, batch and devices, as `meshplan tune` does.

    Nothing of the script is run, and nothing is stored.
    """
    return as_json(await heavily_priced(request, tune_request, body=body))
