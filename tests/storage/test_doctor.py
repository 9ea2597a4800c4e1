"""``meshplan doctor``: what it finds in installations that are broken in known ways."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import text, update

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE, OUR_FAULT
from app.http import keys
from app.server import doctor
from app.server.doctor import Finding, examine
from app.settings import Settings
from app.storage.session import Database, parsed_url
from app.storage.tables import VERSION_TABLE, Event, Study
from app.studies import queue
from documents.errors import InputError
from tests.study_jobs import queued, small_job


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def found(database_url: str, free_port: int) -> Callable[..., dict[str, Finding]]:
    def look(port: int = free_port) -> dict[str, Finding]:
        path = parsed_url(database_url).database or ""
        if database_url.startswith("sqlite") and Path(path).exists():
            Path(path).chmod(0o600)
        findings = examine(Settings(database_url=database_url), port)
        assert all(finding.detail.endswith(".") and "\n" not in finding.detail for finding in findings)
        assert all(finding.hint for finding in findings if finding.state != "ok")
        return {finding.check: finding for finding in findings}

    return look


def test_a_sound_installation_is_told_so(found: Callable[..., dict[str, Finding]], database_url: str) -> None:
    findings = found()
    assert {finding.state for finding in findings.values()} == {"ok"}
    expected = {"program", "calibrations", "hardware profiles", "models", "open files", "port", "database", "storage", "clock"}
    assert expected | {"keys", "queue"} <= set(findings)
    assert ("disk" in findings) == database_url.startswith("sqlite")


def test_a_schema_of_another_version_is_told(found: Callable[..., dict[str, Finding]], database: Database) -> None:
    before = "0007"
    for revision, sentence in (("0001", "run `meshplan db upgrade`"), ("9999", "a newer meshplan wrote")):
        with database.write() as session:
            session.execute(text(f"update {VERSION_TABLE} set version_num = '{revision}'"))
        finding = found()["database"]
        assert (finding.state, sentence in finding.detail) == ("error", True)
    with database.write() as session:  # others share it
        session.execute(text(f"update {VERSION_TABLE} set version_num = '{before}'"))


def test_a_queue_that_nobody_serves_is_told(found: Callable[..., dict[str, Finding]], database: Database) -> None:
    with database.write() as session:
        for _ in range(2):
            queued(session, small_job())
        session.execute(update(Study).values(queued_at_s=Study.queued_at_s - 3600.0))
    finding = found()["queue"]
    assert (finding.state, "60 minutes" in finding.detail) == ("warning", True)
    with database.write() as session:
        queue.claim(session, "test", 10.0)
    assert found()["queue"].state == "ok"  # somebody works


def test_keys_that_expire_soon_and_clocks_that_disagree_are_told(
    found: Callable[..., dict[str, Finding]], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as session:
        keys.create_key(session, "soon", keys.USUAL_SCOPES, 3)
        keys.create_key(session, "late", keys.USUAL_SCOPES, 300)
        queued(session, small_job())
    assert found()["keys"].detail == "Expires within 14 days: soon."
    with database.write() as session:
        session.execute(update(Event).values(at_s=Event.at_s + 7200.0))
    assert "ahead of the database's clock" in found()["clock"].detail
    with database.write() as session:
        session.execute(update(Event).values(at_s=Event.at_s - 7200.0))
    now_s = time.time()
    monkeypatch.setattr(doctor.time, "time", lambda: now_s - 60.0)
    finding = found()["clock"]  # 60 s, and what the test has taken since
    assert (finding.state, "database are " in finding.detail, "s apart" in finding.detail) == ("warning", True, True)


def test_a_port_in_use_is_told(found: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert found(port)["port"].detail == f"Another program uses port {port}."


def test_files_that_are_not_this_versions_are_told(
    found: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(family: str) -> None:
        raise InputError(f"{family}.json: bands: the entry of kind 'all' is missing.")

    monkeypatch.setattr(doctor, "shipped_calibration", broken)
    finding = found()["calibrations"]
    assert (finding.state, finding.detail) == ("error", "ascend.json: bands: the entry of kind 'all' is missing.")


def sqlite_findings(path: Path, port: int) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(Settings(database_url=f"sqlite:///{path}"), port)}


def test_the_disk_and_the_rights_of_a_file_are_looked_at(
    sqlite_template: Path, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "studies.db"
    shutil.copy(sqlite_template, path)
    path.chmod(0o644)
    assert sqlite_findings(path, free_port)["rights"].detail.endswith("can be read by everybody on this machine.")
    for free, state in ((doctor.LITTLE_BYTES - 1, "warning"), (doctor.TOO_LITTLE_BYTES - 1, "error")):
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        assert sqlite_findings(path, free_port)["disk"].state == state
    monkeypatch.setattr(doctor, "_file_system", lambda folder: "nfs4")
    assert "lies on nfs4" in sqlite_findings(path, free_port)["file system"].detail
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert sqlite_findings(path, free_port)["rights"].state == "error"


def test_a_damaged_file_and_one_that_is_none_are_told(sqlite_template: Path, tmp_path: Path, free_port: int) -> None:
    path = tmp_path / "studies.db"
    path.write_text("just a text, and long enough not to be taken for an empty file" * 10, encoding="utf-8")
    finding = sqlite_findings(path, free_port)["database"]
    assert (finding.state, "damaged" in finding.detail or "not a database" in finding.detail) == ("error", True)
    path.unlink()
    shutil.copy(sqlite_template, path)
    with sqlite3.connect(path) as connection:
        page = connection.execute("select rootpage from sqlite_master where name = 'meshplan_trials'").fetchone()[0]
        size = connection.execute("pragma page_size").fetchone()[0]
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert sqlite_findings(path, free_port)["database"].detail.startswith("The database is damaged")


def test_a_database_that_is_away_is_told(free_port: int) -> None:
    settings = Settings(database_url="postgresql://nobody:secret@127.0.0.1:1/none")
    finding = next(finding for finding in examine(settings, free_port) if finding.check == "database")
    assert finding.state == "error"
    assert "secret" not in finding.detail


def test_the_command_answers_with_its_exit_code(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", f"sqlite:///{tmp_path / 'new' / 'x.db'}")
    assert main(["doctor", "--port", str(free_port)]) == DONE
    assert "is not there yet; `meshplan serve` makes it" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "new").exists()
    (tmp_path / "text.db").write_text("just a text, and long enough not to be taken for an empty file" * 10, encoding="utf-8")
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", f"sqlite:///{tmp_path / 'text.db'}")
    assert main(["doctor", "--port", str(free_port), "--json"]) == OUR_FAULT
    items = json.loads(capsys.readouterr().out)["items"]
    assert {item["state"] for item in items if item["check"] == "database"} == {"error"}
    assert main(["doctor", "--port", "0"]) == BAD_INPUT
