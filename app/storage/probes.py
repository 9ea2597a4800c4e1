"""Probes of a database: whether it accepts writes, and whether it is damaged."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.storage.session import Database, without_limit
from app.storage.tables import IdempotencyRecord

_PROBE = {"owner": "readyz", "key": "probe"}  # no caller's key has such an owner
_READ_THROUGH_BYTES = 256 * 2**20  # takes half a second


def check_writable(database: Database) -> None:
    """Overwrite one row; ``DATABASE_AWAY`` if that fails."""
    now_s = time.time()
    row = IdempotencyRecord(**_PROBE, body_sha256="", status_code=200, headers={}, body={"at_s": now_s}, created_at_s=now_s)
    with suppress(IntegrityError), database.write() as session:  # another server has just inserted the row
        session.merge(row)


def check_whole(database: Database) -> None:
    """Read all pages of a SQLite file that is not too large; ``DATABASE_AWAY`` if one is damaged."""
    path = database.url.database if database.url.drivername == "sqlite" else None
    if path is None or Path(path).stat().st_size > _READ_THROUGH_BYTES:
        return
    with database.read() as session:
        with without_limit(session.connection()):
            found = session.execute(text("pragma quick_check(1)")).scalar_one()
    if found != "ok":
        damage = sqlite3.DatabaseError(found)
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise OperationalError("pragma quick_check", None, damage)
