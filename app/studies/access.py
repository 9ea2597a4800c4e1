"""Rights of a caller to read, change and submit studies."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.http.ownership import exceeded, num_owned, standing
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.storage.tables import Study
from app.studies.errors import StudyNotFound
from documents.errors import show
from documents.sentences import Sentence

UNFINISHED = ("queued", "running")


def check(session: Session, caller: Principal, study_id: str, *, is_reading: bool) -> None:
    """``StudyNotFound`` if the study must look absent to the caller, ``ServiceError`` if it may only be read."""
    if caller.is_admin:
        return
    found = session.execute(select(Study.owner, Study.visibility).where(Study.id == study_id)).first()
    may = None if found is None else standing(caller, found.owner, found.visibility)
    if found is None or may is None:
        raise StudyNotFound(Sentence("There is no study {}.", study_id))
    if may == "read" and not is_reading:
        hint = Sentence("Submit its job as a study of your own, or ask its owner.")
        raise ServiceError("forbidden", Sentence("The study belongs to {}; you may read it.", show(found.owner)), hint=hint)


def check_quota(session: Session, state: ServerState, caller: Principal, *, is_new: bool = True) -> None:
    """``ServiceError`` if the caller's owner has as many studies as the key allows; the count is locked until the commit."""
    if caller.owner is None:
        return
    owner, limits = caller.owner, caller.limits
    if num_owned(session, owner, Study, Study.state.in_(UNFINISHED)) >= limits.max_unfinished:
        raise exceeded(
            state, "unfinished", Sentence("{:,} studies of {} wait or run already.", limits.max_unfinished, show(owner))
        )
    if is_new and num_owned(session, owner, Study) >= limits.max_stored:
        raise exceeded(state, "stored", Sentence("{:,} studies of {} are stored already.", limits.max_stored, show(owner)))
