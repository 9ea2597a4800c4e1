"""Writers of one SQLite file take turns."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from app.storage import session
from app.storage.database_errors import told
from app.storage.session import Database
from app.storage.sqlite import ASK_AGAIN_S, TimedConnection
from app.storage.tables import IdempotencyRecord
from app.storage.upgrade import upgrade


def opened(path: Path) -> TimedConnection:
    return sqlite3.connect(path, isolation_level=None, factory=TimedConnection)


def test_a_writer_asks_often_so_that_a_short_pause_of_another_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pauses_s = tmp_path / "one.db", []
    other, own = opened(path), opened(path)
    own.execute("pragma busy_timeout=1234")
    other.execute("begin immediate")

    def sleep(pause_s: float) -> None:
        pauses_s.append(pause_s)
        if len(pauses_s) == 40:  # SQLite's own waiting would pause for 0.1 s by now
            other.execute("commit")

    monkeypatch.setattr(time, "sleep", sleep)
    assert own.begin_writing(1000.0)
    assert own.in_transaction
    assert pauses_s == [ASK_AGAIN_S] * 40
    assert own.execute("pragma busy_timeout").fetchone() == (1234,)
    own.close()
    other.close()


def test_a_writer_that_waits_too_long_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BUSY_TIMEOUT_MS", 10)
    path = tmp_path / "studies.db"
    upgrade(f"sqlite:///{path}")
    other = opened(path)
    other.execute("begin immediate")
    with Database(f"sqlite:///{path}") as database:
        with pytest.raises(OperationalError) as raised, database.write() as writing:
            writing.get(IdempotencyRecord, ("nobody", "nothing"))
        assert told(raised.value)[0] == "The database is locked by another process."
        other.execute("commit")
        with database.write() as writing:
            writing.get(IdempotencyRecord, ("nobody", "nothing"))
    other.close()
