"""The job of a recipe as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.jobs.requests import MAX_SERVED_LAYERS, check_keys
from app.launch_scripts.launch import Given
from app.recipes.reading import RecipeJob, Stated, recipe_job
from app.recipes.schemas import RecipeDocument, RecipeRequest
from documents.checking import check
from documents.errors import InputError
from documents.sentences import Sentence
from hardware_profiles import catalogue

if TYPE_CHECKING:
    from app.storage.session import Database


def recipe_request(body: Mapping[str, Any], database: Database) -> RecipeDocument:
    """The answer to a request body, which needs no ``database``; ``InputError`` if the recipe cannot be read."""
    check_keys(body, RecipeRequest.model_fields)
    request = check(RecipeRequest, body)
    if request.hardware not in catalogue.names():
        raise catalogue.unknown("hardware", request.hardware)
    lengths = {"mean": request.mean_answer, "sigma": request.sigma}
    stated = Stated(
        request.hardware,
        request.devices,
        request.model,
        request.mean_prompt,
        request.kept_fraction,
        {name: value for name, value in lengths.items() if value is not None},
        dict(request.assume or {}),
    )
    given = Given("recipe", request.set or {}, request.files or {})
    found = recipe_job(request.recipe, given, stated, catalogue.named(request.hardware), None, keeps_layouts=request.layouts)
    layers = found.job.job.workload.model.num_layers
    if layers > MAX_SERVED_LAYERS:
        raise InputError(Sentence("recipe: a model of {:,} layers; read it with the command line.", layers))
    return recipe_document(found)


def recipe_document(found: RecipeJob) -> RecipeDocument:
    """The job of a recipe that was read."""
    return RecipeDocument(
        framework=found.recipe.release.name,
        release=found.recipe.release.version,
        job=found.job.document,
        assumptions=found.job.assumptions,
        ignored=list(found.ignored),
    )
