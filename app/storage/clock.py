"""The database's clock, so that hosts whose clocks differ agree on when a lease ends."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement


class database_time_s(FunctionElement[float]):  # noqa: N801 - reads as the SQL function that it is
    """Seconds since 1970, at the time of the statement, not of the transaction's start."""

    type = Float(53)
    inherit_cache = True


@compiles(database_time_s, "postgresql")
def _postgresql(element: database_time_s, compiler: Any, **options: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


@compiles(database_time_s, "sqlite")
def _sqlite(element: database_time_s, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"  # unixepoch('subsec') needs a newer SQLite than many systems have


def now_s(session: Session) -> float:
    return session.execute(select(database_time_s())).scalar_one()
