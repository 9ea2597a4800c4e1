"""``/v1/studies/{study_id}/report``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.state import state_of
from app.language.choice import Language
from app.reports.report import Form
from app.reports.service import study_report
from app.studies.endpoints import StudyId

router = APIRouter(prefix="/studies/{study_id}", tags=["studies"], route_class=StrictRoute)
_KINDS = {"html": ("text/html", "html"), "pdf-ready": ("text/html", "html"), "markdown": ("text/markdown", "md")}


@router.get(
    "/report",
    response_class=Response,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/html", "text/markdown")}},
        **described("not-found", "conflict", "invalid-input"),
    },
)
def get_report(
    request: Request,
    study_id: StudyId,
    form: Annotated[Form, Query(alias="format", description="`pdf-ready`: HTML laid out for paper")] = "html",
    language: Annotated[Language, Query(description="of headings and sentences")] = "en",
) -> Response:
    """The study as one page for a meeting, with its pictures inside; a file to save."""
    media_type, ending = _KINDS[form]
    text = study_report(state_of(request).database, study_id, form, language)
    headers = {"Content-Disposition": f'attachment; filename="meshplan-{study_id}.{ending}"'}
    return Response(text, media_type=f"{media_type}; charset=utf-8", headers=headers)
