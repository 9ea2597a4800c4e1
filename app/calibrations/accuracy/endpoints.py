"""``/v1/accuracy``: how far to trust the predictions."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Response

from app.calibrations.accuracy import service
from app.calibrations.accuracy.schemas import AccuracyDocument
from app.http import etag
from app.http.bodies import StrictRoute
from app.http.etag import NOT_MODIFIED, IfNoneMatch
from app.http.problems import described
from app.text.json_documents import json_with_parts

router = APIRouter(tags=["runs"], route_class=StrictRoute)


@cache
def _content() -> bytes:
    return json_with_parts(service.accuracy())


@router.get("/accuracy", response_model=AccuracyDocument, responses={**described(), **NOT_MODIFIED})
def get_accuracy(if_none_match: IfNoneMatch = None) -> Response:
    """Published runs with measured and predicted step times, and the shipped calibrations."""
    return etag.answer(_content(), if_none_match)
