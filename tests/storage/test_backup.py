"""Backups from and to both databases, and the upgrade of a database that version 0.1 wrote."""

from __future__ import annotations

import gzip
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import MetaData, inspect, select, text

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.http import audit, keys
from app.server.application import create_app
from app.storage import backup as backups
from app.storage.session import Database, StorageError
from app.storage.tables import PREFIX, VERSION_TABLE, Event, KeptCheck, Study, Table
from app.storage.upgrade import check_current, upgrade, upgrade_on
from app.studies import queue, service
from app.studies.runner import StudyRun
from tests.databases import KINDS, Postgresql
from tests.study_jobs import queued, small_job

OLD = Path(__file__).parents[1] / "fixtures/databases/0.1.db.gz"  # written by version 0.1.0, with studies in every state


@pytest.fixture
def target_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of another database, without tables, whose kind follows."""
    if request.param == "postgresql":
        server: Postgresql = request.getfixturevalue("postgresql")
        return server.empty()
    return f"sqlite:///{tmp_path / 'other folder' / 'target.db'}"


both_targets = pytest.mark.parametrize("target_url", KINDS, indirect=True)


def rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """All that is stored, by table."""
    with Database(url) as database, database.read() as session:
        found = MetaData()
        found.reflect(session.connection(), only=lambda name, _: name.startswith(PREFIX))
        return {
            table.name: [dict(row) for row in session.execute(select(table).order_by(*table.primary_key.columns)).mappings()]
            for table in found.sorted_tables
        }


def fill(database: Database) -> None:
    """A finished study with plans, one of a sampler with trials, one that waits, one that is deleted, a key, a log."""
    with database.write() as session:
        for search in ({}, {"sampler": "random", "max_trials": 32}, {"top": 1}):
            queued(session, small_job(**search), owner="ada", visibility="link", priority=2)
        key, _ = keys.create_key(session, "ada", keys.USUAL_SCOPES, 3)
        audit.record(session, audit.of_key(key, "keys create ada"))
        session.add(
            KeptCheck(
                id="kept",
                created_at_s=1.0,
                visibility="link",
                archived=True,
                name="a.yaml",
                commit="0a1b",
                status="broken",
                taken_from={"commit": "--commit"},
                version="0",
                metrics={"step_time_s": 1.5},
                lines=[{}],
                document={"a": None},
            )
        )
    for _ in range(2):
        with database.write() as session:
            lease = queue.claim(session, "test", 10.0)
            assert lease is not None
        StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run()
    with database.write() as session:
        gone = queued(session, small_job())
        service.cancel_study(session, gone.id)
        service.delete_study(session, gone.id)


@both_targets
def test_a_restored_database_holds_what_was_backed_up(
    database: Database, database_url: str, target_url: str, tmp_path: Path
) -> None:
    fill(database)
    before = rows(database_url)
    path = tmp_path / "backup.db"
    revision, counts = backups.backup(database_url, path)
    assert (counts["studies"], counts["trials"], counts["api_keys"], counts["audit"]) == (3, 32, 1, 1)
    assert (counts["plans"] > 3, counts["checks"]) == (True, 1)
    assert path.stat().st_mode & 0o077 == 0
    assert [name.name for name in tmp_path.glob("backup*")] == ["backup.db"]
    assert backups.restore(path, target_url) == (revision, counts)
    assert rows(target_url) == before
    with Database(target_url) as restored:
        check_current(restored)
        with restored.write() as session:  # goes on where it was: no number is given twice, not even of what is gone
            new = queued(session, small_job())
            assert session.scalar(select(Study.number).where(Study.id == new.id)) == 5
            events = session.scalars(select(Event.sequence).order_by(Event.sequence)).all()
            assert events[-1] > max(row["sequence"] for row in before[Event.__tablename__]) + 2
        with restored.write() as session:
            lease = queue.claim(session, "test", 10.0)
            assert lease is not None
        assert StudyRun(restored, lease, checkpoint_s=0.05, should_stop=lambda: False).run() == "completed"


def test_a_backup_is_of_one_moment(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as session:
        queued(session, small_job())
    copy = backups._copy

    def copy_while_others_write(source: Any, target: Any) -> Any:
        source.execute(text(f"select count(*) from {PREFIX}plans")).all()  # its moment has come
        with database.write() as session:
            queued(session, small_job())
        return copy(source, target)

    monkeypatch.setattr(backups, "_copy", copy_while_others_write)
    counts = backups.backup(database_url, tmp_path / "x.db")[1]
    assert (counts["studies"], counts["events"]) == (1, 1)
    assert len(rows(database_url)[Study.__tablename__]) == 2


def test_nothing_that_is_there_is_overwritten(database: Database, database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "backup.db"
    backups.backup(database_url, path)
    with pytest.raises(StorageError, match="exists already"):
        backups.backup(database_url, path)
    assert backups.restore(path, database_url)[1]["studies"] == 0  # tables without anything in them are replaced
    with database.write() as session:
        queued(session, small_job())
    before = rows(database_url)
    with pytest.raises(StorageError, match="holds studies already"):
        backups.restore(path, database_url)
    assert rows(database_url) == before


@both_targets
def test_a_restore_that_fails_leaves_nothing_behind(
    database_url: str, database: Database, target_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    path = tmp_path / "backup.db"
    backups.backup(database_url, path)

    def fail(*_: Any) -> None:
        raise StorageError("It broke.")

    monkeypatch.setattr(backups, "_number_on", fail)
    with pytest.raises(StorageError, match="It broke"):
        backups.restore(path, target_url)
    with Database(target_url) as target, target.connect() as connection:
        assert inspect(connection).get_table_names() == []


def test_what_is_no_backup_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'target.db'}"
    (tmp_path / "text.db").write_text("just a text, and long enough not to be taken for an empty file" * 10, encoding="utf-8")
    sqlite3.connect(tmp_path / "foreign.db").execute("create table other (id integer)").connection.close()
    newer = tmp_path / "newer.db"
    upgrade(f"sqlite:///{newer}")
    with sqlite3.connect(newer) as connection:
        connection.execute(f"update {VERSION_TABLE} set version_num = '9999'")
    connection.close()
    for name, sentence in (
        ("none.db", "no such file"),
        ("text.db", "no backup of meshplan's"),
        ("foreign.db", "no backup of meshplan's"),
        ("newer.db", "schema 9999, which a newer meshplan wrote"),
    ):
        with pytest.raises(StorageError, match=sentence) as refused:
            backups.restore(tmp_path / name, url)
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "target.db").exists()
    with pytest.raises(StorageError, match="nothing to back up"):
        backups.backup(url, tmp_path / "x.db")
    with pytest.raises(StorageError, match="cannot be written"):
        backups.backup(f"sqlite:///{newer}", tmp_path / "no" / "folder.db")
    with pytest.raises(StorageError, match="a newer meshplan wrote"):
        backups.backup(f"sqlite:///{newer}", tmp_path / "x.db")
    assert not list(tmp_path.glob("x.db*"))


def test_what_waits_for_bytes_is_neither_a_backup_nor_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "waits"
    os.mkfifo(path)
    monkeypatch.setattr(stat, "S_ISREG", lambda mode: True)  # as /proc/kmsg, which only root may open
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    writer = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(StorageError, match="waits: is not a regular file; give a file"):
            backups.restore(path, f"sqlite:///{tmp_path / 'target.db'}")
        for use in (upgrade, Database):
            with pytest.raises(StorageError, match="waits: is not a regular file; give a file"):
                use(f"sqlite:///{path}")
    finally:
        os.close(writer)


def test_a_damaged_backup_is_refused(database_url: str, database: Database, tmp_path: Path) -> None:
    fill(database)
    path = tmp_path / "backup.db"
    backups.backup(database_url, path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)
    with pytest.raises(StorageError, match=r"damaged|no backup"):
        backups.restore(path, f"sqlite:///{tmp_path / 'target.db'}")


def test_the_commands_say_what_they_did(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with database.write() as session:
        queued(session, small_job())
    path = str(tmp_path / "backup.db")
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", database_url)
    assert main(["db", "backup", path]) == DONE
    assert f"{path} has schema 0007: " in (told := capsys.readouterr().out)
    assert "1 studies" in told
    assert main(["db", "restore", path]) == BAD_INPUT
    assert "holds studies already" in capsys.readouterr().err
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", f"sqlite:///{tmp_path / 'new' / 'target.db'}")
    assert main(["db", "restore", path]) == DONE
    assert "1 studies" in capsys.readouterr().out


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "0.1.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


@pytest.fixture
def old_url(empty_url: str, old_file: Path) -> Iterator[str]:
    """A database of either product as version 0.1 left it."""
    if empty_url.startswith("sqlite"):
        yield f"sqlite:///{old_file}"
        return
    with backups._opened(old_file) as source, Database(empty_url) as database, database.connect() as target:
        upgrade_on(target, "0001")
        backups._copy(source, target)
    yield empty_url


def test_a_database_of_version_0_1_is_upgraded_with_all_that_it_holds(old_url: str) -> None:
    before = rows(old_url)
    secret = "mp_of_the_old_version"
    with Database(old_url) as database:
        with pytest.raises(StorageError, match="has schema 0001, this version needs 0007; run `meshplan db upgrade`"):
            check_current(database)
        with database.write() as session:
            digest = hashlib.sha256(secret.encode()).hexdigest()
            session.execute(text(f"update {PREFIX}api_keys set secret_sha256 = '{digest}' where name = 'planner'"))
    assert upgrade(old_url) == "0007"
    after = rows(old_url)
    for table, was in before.items():
        if table not in (VERSION_TABLE, f"{PREFIX}api_keys"):
            assert [{name: row[name] for name in was[0]} for row in after[table]] == was if was else after[table] == []
    assert {table for table in after if table != VERSION_TABLE} == set(Table.metadata.tables)
    with Database(old_url) as database:
        check_current(database)
        app = create_app(database, keys_required=True)
        with TestClient(app, base_url="https://planner.example", headers={"Authorization": f"Bearer {secret}"}) as client:
            items = client.get("/v1/studies").json()["items"]
            assert sorted(item["state"] for item in items) == sorted(
                ["completed", "completed", "cancelled", "failed", "running", "queued", "queued"]
            )
            assert {(item["owner"], item["visibility"], item["kind"]) for item in items} == {(None, "public", "search")}
            for item in items:
                assert client.get(f"/v1/studies/{item['id']}").json()["job"]["model"]
            best = client.get(f"/v1/studies/{items[-1]['id']}/plans").json()["items"]
            assert [plan["rank"] for plan in best] == [1, 2]
            for part in ("", "/launch", "/analysis", "/timeline"):
                assert client.get(f"/v1/studies/{items[-1]['id']}/plans/{best[0]['plan_id']}{part}").status_code == 200, part
            failed = next(item["id"] for item in items if item["state"] == "failed")
            assert client.post(f"/v1/studies/{failed}:resume").json()["state"] == "queued"
            waiting = [item["id"] for item in reversed(items) if item["state"] in ("running", "queued")]
            for study in [*waiting[:1], failed, *waiting[1:]]:  # an owner's own go by age, behind what was begun
                with database.write() as session:
                    lease = queue.claim(session, "test", 10.0)
                assert lease is not None
                assert lease.study_id == study
                assert StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run() == "completed"


@both_targets
def test_a_backup_of_version_0_1_is_restored_and_upgraded(old_file: Path, target_url: str) -> None:
    before = old_file.read_bytes()
    revision, counts = backups.restore(old_file, target_url)
    assert (revision, counts["studies"], counts["measured_runs"]) == ("0007", 7, 1)
    assert old_file.read_bytes() == before


def test_a_database_is_backed_up_before_it_is_upgraded(old_url: str, tmp_path: Path) -> None:
    revision, counts = backups.backup(old_url, tmp_path / "before.db")
    assert (revision, counts["studies"]) == ("0001", 7)
    assert rows(f"sqlite:///{tmp_path / 'before.db'}") == rows(old_url)
