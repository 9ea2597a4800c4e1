"""Who may do what with a study: all with one's own and with nobody's, an admin with any; others read what is shared."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.http import keys
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.storage.tables import KeptCheck, Study
from app.studies.errors import StudyNotFound
from documents.errors import show

Visibility = Literal["private", "link", "public"]
UNFINISHED = ("queued", "running")
_RETRY_AFTER_S = {"unfinished": 60, "stored": 3600}


def check(session: Session, caller: Principal, study_id: str, *, is_reading: bool) -> None:
    """``StudyNotFound`` where the caller may not know of it, ``ServiceError`` where it may only read it."""
    if caller.is_admin:
        return
    found = session.execute(select(Study.owner, Study.visibility).where(Study.id == study_id)).first()
    may = None if found is None else standing(caller, found.owner, found.visibility)
    if found is None or may is None:
        raise StudyNotFound(f"There is no study {study_id}.")
    if may == "read" and not is_reading:
        hint = "Submit its job as a study of your own, or ask its owner."
        raise ServiceError("forbidden", f"The study belongs to {show(found.owner)}; you may read it.", hint=hint)


def standing(caller: Principal, owner: str | None, visibility: str) -> Literal["change", "read"] | None:
    """What the caller may do with something of that owner; None where it may not know of it."""
    if caller.is_admin or owner in (None, caller.owner):
        return "change"
    return None if visibility == "private" else "read"


def listed(caller: Principal, table: type[Study | KeptCheck] = Study) -> list[ColumnElement[bool]]:
    """What a list for the caller holds: what is shared by link is found by its address only."""
    if caller.is_admin:
        return []
    return [or_(table.owner == caller.owner, table.owner.is_(None), table.visibility == "public")]


def check_quota(session: Session, state: ServerState, caller: Principal, *, is_new: bool = True) -> None:
    """``ServiceError`` where the caller's owner has as many studies as the key allows; what is counted holds until the commit."""
    if caller.owner is None:
        return
    keys.lock_owner(session, caller.owner)
    own, limits = Study.owner == caller.owner, caller.limits
    if _count(session, Study, own, Study.state.in_(UNFINISHED)) >= limits.max_unfinished:
        raise _exceeded(state, "unfinished", f"{limits.max_unfinished:,} studies of {show(caller.owner)} wait or run already.")
    if is_new and _count(session, Study, own) >= limits.max_stored:
        raise _exceeded(state, "stored", f"{limits.max_stored:,} studies of {show(caller.owner)} are stored already.")


def check_kept_quota(session: Session, state: ServerState, caller: Principal) -> None:
    """The same of checks that are kept, of which an owner may have as many as of studies."""
    if caller.owner is None:
        return
    keys.lock_owner(session, caller.owner)
    most = caller.limits.max_stored
    if _count(session, KeptCheck, KeptCheck.owner == caller.owner) >= most:
        raise _exceeded(state, "stored", f"{most:,} checks of {show(caller.owner)} are kept already.")


def _count(session: Session, table: type[Study | KeptCheck], *filters: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(table).where(*filters)) or 0


def _exceeded(state: ServerState, quota: str, detail: str) -> ServiceError:
    state.metrics.limited("quota")
    return ServiceError("quota-exceeded", detail, headers={"Retry-After": str(_RETRY_AFTER_S[quota])})
