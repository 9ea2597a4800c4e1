"""Queries of the table of calibrations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.storage.tables import Calibration

_ID = re.compile(r"[0-9a-f]{12}")


def put(session: Session, row: dict[str, Any]) -> Calibration:
    """Stores a calibration; the report of an equal one is replaced."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    changed = {name: row[name] for name in ("report", "version")}
    statement = dialect.insert(Calibration).values(**row)
    session.execute(statement.on_conflict_do_update(index_elements=[Calibration.id], set_=changed))
    return session.scalars(select(Calibration).where(Calibration.id == row["id"])).one()


def find(session: Session, calibration_id: str) -> Calibration | None:
    if not _ID.fullmatch(calibration_id):  # some databases refuse some texts
        return None
    return session.scalars(select(Calibration).where(Calibration.id == calibration_id)).one_or_none()


def list_calibrations(session: Session, after: int | None, limit: int) -> Sequence[Calibration]:
    """Newest first."""
    query = select(Calibration).order_by(Calibration.number.desc()).limit(limit)
    return session.scalars(query if after is None else query.where(Calibration.number < after)).all()
