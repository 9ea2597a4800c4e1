"""``POST /v1/scripts``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.scripts.schemas import ScriptRequest, TuneDocument
from app.scripts.service import tune_request
from app.text.documents import DescribedBy

router = APIRouter(prefix="/scripts", tags=["scripts"], route_class=StrictRoute)


@router.post("", responses=described("invalid-input", "not-json", "too-large"))
def create_tuning(request: Request, body: Annotated[dict[str, Any], DescribedBy(ScriptRequest), Body()]) -> TuneDocument:
    """Prices a launch script's own plan and finds the best for the same model, batch and devices, as `meshplan tune` does.

    Nothing of the script is run, and nothing is stored.
    """
    return tune_request(body, state_of(request).database)
