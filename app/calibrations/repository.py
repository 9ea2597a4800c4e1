"""Queries of the table of calibrations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.storage.tables import Calibration

_ID = re.compile(r"[0-9a-f]{12}")


def put(session: Session, row: dict[str, Any]) -> Calibration:
    """Stores a calibration; the report of an equal one of its owner is replaced."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    session.execute(dialect.insert(Calibration).values(**row).on_conflict_do_nothing())
    owned = Calibration.owner.is_(None) if row["owner"] is None else Calibration.owner == row["owner"]
    stored = session.scalars(select(Calibration).where(Calibration.id == row["id"], owned)).one()
    for name in ("report", "version", "visibility"):
        setattr(stored, name, row[name])
    session.flush()
    return stored


def find(session: Session, calibration_id: str) -> Calibration | None:
    """The calibration of that id; of several owners, the oldest."""
    found = find_all(session, calibration_id)
    return found[0] if found else None


def find_all(session: Session, calibration_id: str) -> Sequence[Calibration]:
    """The calibration as each owner stored it, the oldest first."""
    if not _ID.fullmatch(calibration_id):  # some databases refuse some texts
        return ()
    return session.scalars(select(Calibration).where(Calibration.id == calibration_id).order_by(Calibration.number)).all()


def remove(session: Session, numbers: Sequence[int]) -> None:
    session.execute(delete(Calibration).where(Calibration.number.in_(numbers)))


def list_calibrations(
    session: Session, after: int | None, limit: int, seen: Sequence[ColumnElement[bool]] = ()
) -> Sequence[Calibration]:
    """Newest first."""
    query = select(Calibration).where(*seen).order_by(Calibration.number.desc()).limit(limit)
    return session.scalars(query if after is None else query.where(Calibration.number < after)).all()
