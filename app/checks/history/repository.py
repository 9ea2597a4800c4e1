"""Queries of the table of kept checks."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, case, delete, func, select
from sqlalchemy.orm import Session, undefer

from app.storage.tables import IdempotencyRecord, KeptCheck
from documents.late_methods import dataclass


@dataclass(frozen=True)
class History:
    """Counts and last check of a history; ``number`` is the number of the last check."""

    number: int
    num_checks: int
    num_not_passed: int
    first_at_s: float
    last: KeptCheck


def add(session: Session, check: KeptCheck) -> None:
    session.add(check)
    session.flush()


def find(session: Session, check_id: str, *, for_update: bool = False) -> KeptCheck | None:
    """The check with its document; ``for_update`` locks its row until the transaction ends."""
    query = select(KeptCheck).where(KeptCheck.id == check_id).options(undefer(KeptCheck.document))
    query = query.execution_options(populate_existing=True)
    return session.scalars(query.with_for_update() if for_update else query).one_or_none()


def list_checks(session: Session, after: int | None, limit: int, filters: Sequence[ColumnElement[bool]]) -> Sequence[KeptCheck]:
    """Newest first."""
    query = select(KeptCheck).where(*filters).order_by(KeptCheck.number.desc()).limit(limit)
    return session.scalars(query if after is None else query.where(KeptCheck.number < after)).all()


def list_histories(session: Session, after: int | None, limit: int, filters: Sequence[ColumnElement[bool]]) -> list[History]:
    """Histories with the number of their checks; the one with the newest check first."""
    last = func.max(KeptCheck.number)
    not_passed = func.sum(case((KeptCheck.status == "passed", 0), else_=1))
    query = select(last, func.count(), not_passed, func.min(KeptCheck.created_at_s)).where(*filters)
    query = query.group_by(KeptCheck.owner, KeptCheck.name).order_by(last.desc()).limit(limit)
    found = session.execute(query if after is None else query.having(last < after)).all()
    rows = {row.number: row for row in session.scalars(select(KeptCheck).where(KeptCheck.number.in_([row[0] for row in found])))}
    return [History(number, count, int(broken), first_s, rows[number]) for number, count, broken, first_s in found]


def remove(session: Session, check: KeptCheck) -> None:
    session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.study_id == check.id))
    session.delete(check)
    session.flush()
