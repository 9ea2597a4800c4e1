"""``POST /v1/rl/recipes``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from app.http.bodies import StrictRoute, as_json
from app.http.priced_requests import heavily_priced
from app.http.problems import described
from app.recipes.schemas import RecipeDocument, RecipeRequest
from app.recipes.service import recipe_request
from app.text.json_documents import DescribedBy

router = APIRouter(prefix="/rl/recipes", tags=["rl"], route_class=StrictRoute)


@router.post("", response_model=RecipeDocument, responses=described("invalid-input", "not-json", "too-large"))
async def create_recipe_job(request: Request, body: Annotated[dict[str, Any], DescribedBy(RecipeRequest), Body()]) -> Response:
    """Reads a recipe of verl or MindSpeed-RL as a job of post-training. Nothing of it is run, and nothing is stored."""
    return as_json(await heavily_priced(request, recipe_request, body=body))
