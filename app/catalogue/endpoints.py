"""``/v1/models`` and ``/v1/hardware``."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response

from app.catalogue.hardware import details, summary
from app.catalogue.models import presets
from app.catalogue.models.huggingface.reading import model_from_config
from app.catalogue.schemas import HardwareDetails, HardwareSummary, HuggingFaceConfig, ImportedModel, ModelDetails, ModelSummary
from app.http import etag
from app.http.bodies import StrictRoute
from app.http.etag import NOT_MODIFIED, IfNoneMatch
from app.http.paging import Listing
from app.http.problems import ServiceError, described
from app.text.json_documents import DescribedBy, json_with_parts
from documents.errors import InputError, nearest, show
from documents.sentences import Sentence, joined
from hardware_profiles import catalogue

router = APIRouter(tags=["catalogue"], route_class=StrictRoute)
ModelName = Annotated[str, Query(max_length=200, description="what to call the model; default: its model_type")]


def _unknown(what: str, name: str, known: tuple[str, ...]) -> ServiceError:
    guess = nearest(name[:200], known)
    hint = Sentence("Did you mean {!r}?", guess) if guess else Sentence("Known: {}.", joined(", ", known))
    return ServiceError("not-found", Sentence("There is no {} {}.", what, show(name)), parameter="name", hint=hint)


@cache
def _models() -> bytes:
    rows = [ModelSummary.model_validate(row) for row in presets.rows()]
    return json_with_parts(Listing(items=rows, next_cursor=None))


@cache
def _model(name: str) -> bytes:
    return json_with_parts(ModelDetails.model_validate(presets.preset_details(name)))


@cache
def _profiles() -> bytes:
    return json_with_parts(Listing(items=[summary(catalogue.named(name)) for name in catalogue.names()], next_cursor=None))


@cache
def _profile(name: str) -> bytes:
    return json_with_parts(details(catalogue.named(name)))


@router.get("/models", response_model=Listing[ModelSummary], responses={**described(), **NOT_MODIFIED})
def list_models(if_none_match: IfNoneMatch = None) -> Response:
    """The model presets."""
    return etag.answer(_models(), if_none_match)


@router.get("/models/{name}", response_model=ModelDetails, responses={**described("not-found"), **NOT_MODIFIED})
def get_model(name: str, if_none_match: IfNoneMatch = None) -> Response:
    """One preset: dimensions, published sizes, default training, each with its source."""
    if name not in presets.names():
        raise _unknown(Sentence("model preset"), name, presets.names())
    return etag.answer(_model(name), if_none_match)


@router.post("/models:import", responses=described("invalid-input", "not-json", "too-large"))
def import_model(body: Annotated[dict[str, Any], DescribedBy(HuggingFaceConfig), Body()], name: ModelName = "") -> ImportedModel:
    """Reads a Hugging Face `config.json`: the `model` part of a job, and its parameter counts."""
    try:
        imported = model_from_config(body, name=name.strip())
    except InputError as error:
        raise ServiceError("invalid-input", str(error), pointer="#") from None
    return ImportedModel.model_validate({**presets.model_details(imported.model), "notes": list(imported.notes)})


@router.get("/hardware", response_model=Listing[HardwareSummary], responses={**described(), **NOT_MODIFIED})
def list_hardware(if_none_match: IfNoneMatch = None) -> Response:
    """The hardware profiles."""
    return etag.answer(_profiles(), if_none_match)


@router.get("/hardware/{name}", response_model=HardwareDetails, responses={**described("not-found"), **NOT_MODIFIED})
def get_hardware(name: str, if_none_match: IfNoneMatch = None) -> Response:
    """One profile, every number with its unit, basis and source."""
    if name not in catalogue.names():
        raise _unknown(Sentence("hardware profile"), name, catalogue.names())
    return etag.answer(_profile(name), if_none_match)
