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

UNFINISHED = ("queued", "running")


def check(session: Session, caller: Principal, study_id: str, *, is_reading: bool) -> None:
    """``StudyNotFound`` if the study must look absent to the caller, ``ServiceError`` if it may only be read."""
    if caller.is_admin:
        return
    found = session.execute(select(Study.owner, Study.visibility).where(Study.id == study_id)).first()
    may = None if found is None else standing(caller, found.owner, found.visibility)
    if found is None or may is None:
        raise StudyNotFound(f"There is no study {study_id}.")
    if may == "read" and not is_reading:
        hint = "Submit its job as a study of your own, or ask its owner."
        raise ServiceError("forbidden", f"The study belongs to {show(found.owner)}; you may read it.", hint=hint)


def check_quota(session: Session, state: ServerState, caller: Principal, *, is_new: bool = True) -> None:
    """``ServiceError`` if the caller's owner has as many studies as the key allows; the count is locked until the commit."""
    if caller.owner is None:
        return
    owner, limits = caller.owner, caller.limits
    if num_owned(session, owner, Study, Study.state.in_(UNFINISHED)) >= limits.max_unfinished:
        raise exceeded(state, "unfinished", f"{limits.max_unfinished:,} studies of {show(owner)} wait or run already.")
    if is_new and num_owned(session, owner, Study) >= limits.max_stored:
        raise exceeded(state, "stored", f"{limits.max_stored:,} studies of {show(owner)} are stored already.")
