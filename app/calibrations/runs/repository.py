"""Queries of the table of measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.storage.tables import MeasuredRun

Row = dict[str, Any]


def add_new(session: Session, rows: Sequence[Row]) -> int:
    """Stores the rows whose hash is not there yet, and returns how many those are."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(MeasuredRun).on_conflict_do_nothing(index_elements=[MeasuredRun.record_sha256])
    inserted = statement.returning(MeasuredRun.number)
    return sum(session.execute(inserted.values(**row)).first() is not None for row in rows)


def list_runs(session: Session, after: int | None, limit: int) -> Sequence[MeasuredRun]:
    """Newest first."""
    query = select(MeasuredRun).order_by(MeasuredRun.number.desc()).limit(limit)
    return session.scalars(query if after is None else query.where(MeasuredRun.number < after)).all()


def records_of(session: Session, hardware: str, limit: int) -> Sequence[Row]:
    """The newest records that name this hardware, newest first."""
    named = MeasuredRun.record[("cluster", "hardware")].as_string() == hardware
    return session.scalars(select(MeasuredRun.record).where(named).order_by(MeasuredRun.number.desc()).limit(limit)).all()
