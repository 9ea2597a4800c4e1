"""Databases that hang, are full, locked or damaged: told at once and in a sentence, by a server that lives on."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.server.application import create_app
from app.storage import session as storage
from app.storage.database_errors import DATABASE_AWAY, DatabaseHangsError, told
from app.storage.probes import check_whole, check_writable
from app.storage.session import Database
from app.storage.tables import IdempotencyRecord
from tests.databases import Postgresql
from tests.study_jobs import queued, small_job

LOCAL = "http://127.0.0.1:8765"


@contextmanager
def stopped(database: Database) -> Iterator[None]:
    """All processes of the PostgreSQL server, as SIGSTOP leaves them."""
    with database.read() as session:
        backend = session.execute(text("select pg_backend_pid()")).scalar_one()
    server = psutil.Process(backend).parent()
    assert server is not None
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGCONT)


@pytest.fixture
def hurried(postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    for name, value in {"CONNECT_S": 2, "POOL_S": 0.5, "REST_S": 0.5, "PING_S": 0.5}.items():
        monkeypatch.setattr(storage, name, value)
    with Database(postgresql.upgraded(), statement_s=0.5) as database:
        yield database


def test_a_database_that_hangs_is_told_in_time_and_then_at_once_and_used_again_when_it_answers(hurried: Database) -> None:
    with TestClient(create_app(hurried), base_url=LOCAL, raise_server_exceptions=False) as api:
        assert api.get("/v1/studies").status_code == 200
        with stopped(hurried):
            with ThreadPoolExecutor(30) as pool:
                answers = list(pool.map(lambda _: api.get("/v1/studies"), range(30)))
            assert {answer.status_code for answer in answers} == {503}
            assert {answer.json()["detail"] for answer in answers} == {"The database does not answer."}
            asked = []
            event.listen(hurried._engine, "checkout", lambda *given: asked.append(given))
            hurried._ask_again_s = time.monotonic() + 60
            for _ in range(100):
                assert api.get("/v1/studies").status_code == 503
            assert asked == []  # it is left alone for a while
            hurried._ask_again_s = time.monotonic()
            assert api.get("/v1/studies").status_code == 503
            assert len(asked) <= 1
            assert api.get("/healthz").status_code == 200
        hurried._ask_again_s = time.monotonic()
        assert api.get("/v1/studies").status_code == 200
        assert api.get("/readyz").status_code == 200
        assert hurried._ask_again_s is None


def test_a_connection_that_rested_is_looked_at_and_none_is_made_where_the_server_hangs(hurried: Database) -> None:
    with TestClient(create_app(hurried), base_url=LOCAL, raise_server_exceptions=False) as api:
        assert api.get("/v1/studies").status_code == 200
        connects: list[object] = []
        event.listen(hurried._engine, "do_connect", lambda *given: connects.append(given), insert=True)
        with stopped(hurried):
            assert api.get("/v1/studies").status_code == 503
        assert connects == []  # it would have waited for that as well
        hurried._ask_again_s = None
        assert api.get("/v1/studies").status_code == 200


def test_connections_that_a_restart_cut_are_made_anew_unnoticed(hurried: Database) -> None:
    with TestClient(create_app(hurried), base_url=LOCAL) as api, Database(hurried.url.render_as_string(False)) as other:
        assert api.get("/v1/studies").status_code == 200
        others = "datname = current_database() and pid <> pg_backend_pid()"
        with other.read() as session:
            session.execute(text(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}"))
        assert api.get("/v1/studies").status_code == 200


def test_a_pool_that_is_used_up_counts_as_away() -> None:
    assert issubclass(PoolTimeout, DATABASE_AWAY)
    assert issubclass(DatabaseHangsError, DATABASE_AWAY)
    assert told(PoolTimeout("QueuePool limit"))[0] == "The database does not answer."


def test_a_fault_of_a_statement_is_not_taken_for_a_database_that_is_away(database: Database) -> None:
    row: dict[str, Any] = {
        "owner": "me",
        "key": "1",
        "body_sha256": "",
        "status_code": 1,
        "headers": {},
        "body": {},
        "created_at_s": 0,
    }
    with pytest.raises(IntegrityError), database.write() as session:
        session.add_all([IdempotencyRecord(**row), IdempotencyRecord(**row)])
    assert not issubclass(IntegrityError, DATABASE_AWAY)


@pytest.fixture
def path(sqlite_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sqlite_template, tmp_path / "studies.db"))


def test_what_was_answered_is_on_the_disk(path: Path) -> None:
    """https://sqlite.org/pragma.html#pragma_synchronous: under WAL, NORMAL loses the last commits with the power."""
    with Database(f"sqlite:///{path}") as database, database.read() as session:
        assert session.execute(text("pragma synchronous")).scalar_one() == 2  # FULL
        assert session.execute(text("pragma journal_mode")).scalar_one() == "wal"


def test_a_full_disk_is_told_as_that(path: Path) -> None:
    with Database(f"sqlite:///{path}") as database, TestClient(create_app(database), base_url=LOCAL) as api:
        assert api.get("/readyz").status_code == 200
        event.listen(database._engine, "begin", lambda connection: connection.exec_driver_sql("pragma max_page_count = 1"))
        body = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}, "search": {"tp": 8}}
        response = api.post("/v1/studies", json=body)
        assert response.status_code == 503
        assert response.json()["detail"] == "The disk of the database is full."
    # The probe of readiness writes, and so notices.
    with Database(f"sqlite:///{path}") as database, TestClient(create_app(database), base_url=LOCAL) as api:
        full = OperationalError("insert", {}, sqlite_error("database or disk is full", sqlite3.SQLITE_FULL))
        event.listen(database._engine, "before_cursor_execute", lambda *given: _fail_writes(given[2], full))
        response = api.get("/readyz")
        assert response.status_code == 503
        assert response.json()["detail"] == "The disk of the database is full."


def sqlite_error(message: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def _fail_writes(statement: str, error: OperationalError) -> None:
    if statement.lower().startswith(("insert", "update", "delete")):
        raise error


def test_damaged_pages_are_told_as_that(path: Path) -> None:
    url = f"sqlite:///{path}"
    with Database(url) as database, database.write() as session:
        for _ in range(3):
            queued(session, small_job())
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("select rootpage from sqlite_master where name = 'meshplan_studies'").fetchone()
        (page_bytes,) = connection.execute("pragma page_size").fetchone()
        connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(b"\xaa" * page_bytes)
    with Database(url) as database:
        check_writable(database)
        with pytest.raises(OperationalError, match="Page"):
            check_whole(database)
        with TestClient(create_app(database), base_url=LOCAL) as api:
            for asked in ("/readyz", "/v1/studies"):
                response = api.get(asked)
                assert response.status_code == 503, asked
                assert response.json()["detail"] == "The database is damaged."
                assert "backup" in response.json()["hint"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (sqlite3.SQLITE_BUSY, "The database is locked by another process."),
        (sqlite3.SQLITE_READONLY_DBMOVED, "The database cannot be written."),
        (sqlite3.SQLITE_IOERR_SHMSIZE, "The disk of the database fails."),
        (sqlite3.SQLITE_CANTOPEN, "The database does not answer."),
    ],
)
def test_each_way_to_be_away_has_its_sentence(code: int, sentence: str) -> None:
    assert told(OperationalError("", {}, sqlite_error("some words", code)))[0] == sentence


@pytest.mark.parametrize(
    ("state", "sentence"), [("53100", "full"), ("XX001", "damaged"), ("25006", "written"), ("08006", "answer")]
)
def test_states_of_postgresql_have_theirs(state: str, sentence: str) -> None:
    cause = Exception("some words")
    cause.sqlstate = state  # type: ignore[attr-defined]
    assert sentence in told(OperationalError("", {}, cause))[0]
