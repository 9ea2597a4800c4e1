"""``/v1/terms``: rights of the caller."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from app.http import keys
from app.http.bodies import StrictRoute
from app.http.problems import described
from app.http.security import Caller
from app.http.state import state_of
from app.text.json_documents import Document

router = APIRouter(prefix="/terms", tags=["studies"], route_class=StrictRoute)


class Terms(Document):
    """Owner and scopes of the caller, and the time that studies are kept."""

    owner: str | None = Field(description="whose studies are the caller's own; null without keys, where they are everybody's")
    scopes: list[keys.Scope]
    keep_studies_days: int = Field(
        description="after its end a study that is not archived is deleted when so many days have passed; 0: never"
    )


@router.get("", responses=described())
def get_terms(request: Request, caller: Caller) -> Terms:
    """Owner and scopes of the caller, and the time that this server's workers keep studies."""
    scopes = [scope for scope in keys.SCOPES if scope in caller.scopes]
    return Terms(owner=caller.owner, scopes=scopes, keep_studies_days=state_of(request).keep_studies_days)
