"""Rights on stored rows: owners change their own and ownerless rows, admins all; others read shared rows."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.http import keys
from app.http.problems import ServiceError
from app.http.security import Principal
from app.http.state import ServerState
from app.storage.tables import Calibration, KeptCheck, MeasuredRun, Study

Visibility = Literal["private", "link", "public"]
Owned = type[Study] | type[KeptCheck] | type[MeasuredRun] | type[Calibration]
_RETRY_AFTER_S = {"unfinished": 60, "stored": 3600}


def standing(caller: Principal, owner: str | None, visibility: str) -> Literal["change", "read"] | None:
    """The caller's right on a row of that owner; None if the row must look absent."""
    if caller.is_admin or owner in (None, caller.owner):
        return "change"
    return None if visibility == "private" else "read"


def listed(caller: Principal, table: Owned) -> list[ColumnElement[bool]]:
    """Conditions of rows in the caller's lists; rows shared by link are reachable by address only."""
    if caller.is_admin:
        return []
    return [or_(table.owner == caller.owner, table.owner.is_(None), table.visibility == "public")]


def own(caller: Principal, table: Owned) -> ColumnElement[bool]:
    """Condition of the caller's own rows; without keys, those of nobody."""
    return table.owner.is_(None) if caller.owner is None else table.owner == caller.owner


def num_owned(session: Session, owner: str, table: Owned, *filters: ColumnElement[bool]) -> int:
    """Number of the owner's rows; the count is locked until the commit."""
    keys.lock_owner(session, owner)
    return session.scalar(select(func.count()).select_from(table).where(table.owner == owner, *filters)) or 0


def exceeded(state: ServerState, quota: Literal["unfinished", "stored"], detail: str) -> ServiceError:
    state.metrics.limited("quota")
    return ServiceError("quota-exceeded", detail, headers={"Retry-After": str(_RETRY_AFTER_S[quota])})
