"""Queries of the table of measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.storage.tables import MeasuredRun

Row = dict[str, Any]


def add_new(session: Session, rows: Sequence[Row]) -> int:
    """Stores the rows that their owner does not have yet, and returns how many those are."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(MeasuredRun).on_conflict_do_nothing()
    inserted = statement.returning(MeasuredRun.number)
    return sum(session.execute(inserted.values(**row)).first() is not None for row in rows)


def list_runs(session: Session, after: int | None, limit: int, seen: Sequence[ColumnElement[bool]] = ()) -> Sequence[MeasuredRun]:
    """Newest first."""
    query = select(MeasuredRun).where(*seen).order_by(MeasuredRun.number.desc()).limit(limit)
    return session.scalars(query if after is None else query.where(MeasuredRun.number < after)).all()


def records_of(session: Session, hardware: str, limit: int, seen: Sequence[ColumnElement[bool]] = ()) -> Sequence[Row]:
    """The newest records that name this hardware, newest first."""
    named = MeasuredRun.record[("cluster", "hardware")].as_string() == hardware
    query = select(MeasuredRun.record).where(named, *seen).order_by(MeasuredRun.number.desc())
    return session.scalars(query.limit(limit)).all()


def find_runs(session: Session, record_sha256: str) -> Sequence[MeasuredRun]:
    """That record as each owner stored it; the rows are locked until the transaction ends."""
    return session.scalars(select(MeasuredRun).where(MeasuredRun.record_sha256 == record_sha256).with_for_update()).all()


def remove(session: Session, numbers: Sequence[int]) -> None:
    session.execute(delete(MeasuredRun).where(MeasuredRun.number.in_(numbers)))


def remove_of(session: Session, owner: str) -> int:
    """Deletes all records of the owner, and returns how many those are."""
    found: Any = session.execute(delete(MeasuredRun).where(MeasuredRun.owner == owner))
    return int(found.rowcount)
