"""What is deleted once it is old, and what is not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.http import audit
from app.http.audit import Act
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import AuditRecord, Event, IdempotencyRecord, KeptCheck, Study
from app.studies import pruning, repository, service
from app.studies.pruning import SECONDS_PER_DAY, Pruned, Retention
from tests.study_jobs import queued, small_job

JOB = small_job()


def fill(database: Database) -> list[str]:
    """Two finished studies, of which the first is ten days old, one as old that waits, and as much of the rest."""
    with database.write() as session:
        ids = [queued(session, JOB).id for _ in range(3)]
        for study in ids[:2]:
            service.cancel_study(session, study)
        old_s = 10 * SECONDS_PER_DAY
        session.execute(update(Study).where(Study.id == ids[0]).values(finished_at_s=Study.finished_at_s - old_s))
        session.execute(update(Study).where(Study.id == ids[2]).values(created_at_s=Study.created_at_s - old_s))
        for number, age_s in enumerate((0.0, old_s)):
            audit.record(session, Act(f"POST /{number}", "ada", None, None))
            session.execute(update(AuditRecord).where(AuditRecord.action == "POST /1").values(at_s=AuditRecord.at_s - age_s))
        now = session.scalar(select(Study.created_at_s).where(Study.id == ids[0]))
        assert now is not None
        for number, at_s in enumerate((now, now - old_s)):
            repository.add_idempotent(session, answer(f"k{number}", ids[0], at_s))
    return ids


def answer(key: str, study_id: str, at_s: float) -> IdempotencyRecord:
    given = {"status_code": 202, "headers": {}, "body": {}, "body_sha256": "0"}
    return IdempotencyRecord(owner="ada", key=key, study_id=study_id, created_at_s=at_s, **given)


def left(database: Database) -> dict[str, int]:
    with database.read() as session:
        counted = {
            table: session.scalar(select(func.count()).select_from(table)) or 0
            for table in (Study, Event, AuditRecord, IdempotencyRecord)
        }
    return {table.__name__: number for table, number in counted.items()}


def test_finished_studies_are_kept_for_ever_unless_asked_otherwise(database: Database) -> None:
    fill(database)
    assert pruning.count(database, Retention()) == Pruned(0, 0, 1, 0)
    assert pruning.prune(database, Retention()) == Pruned(0, 0, 1, 0)
    assert left(database) == {"Study": 3, "Event": 5, "AuditRecord": 2, "IdempotencyRecord": 1}


@pytest.mark.parametrize(("days", "number"), [(11, 0), (9, 1)])
def test_old_studies_go_with_what_belongs_to_them_and_unfinished_ones_stay(database: Database, days: int, number: int) -> None:
    ids = fill(database)
    retention = Retention(days, days)
    assert pruning.count(database, retention) == Pruned(number, number, 1, 0)
    assert left(database)["Study"] == 3
    assert pruning.prune(database, retention).studies == number
    assert left(database) == {
        "Study": 3 - number,
        "Event": 5 - 2 * number,
        "AuditRecord": 2 - number,
        "IdempotencyRecord": 1 - number,
    }
    with database.read() as session:
        assert service.get_state(session, ids[2]) == "queued"
    assert pruning.prune(database, retention) == Pruned(0, 0, 0, 0)


def test_what_is_archived_is_kept_until_it_is_asked_for(database: Database) -> None:
    ids = fill(database)
    with database.write() as session:
        service.change_study(session, ids[0], archived=True, tags=["a"])
    assert pruning.count(database, Retention(9)).studies == 0
    assert pruning.prune(database, Retention(9)).studies == 0
    too = Retention(9, archived=True)
    assert pruning.count(database, too).studies == pruning.prune(database, too).studies == 1
    with database.read() as session:
        assert [item.id for item in service.list_studies(session).items] == [ids[2], ids[1]]
        assert repository.tags_of(session, ids) == {}


def test_more_than_a_transaction_deletes_are_deleted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_FIRST", 2)
    with database.write() as session:
        for _ in range(5):
            service.cancel_study(session, queued(session, JOB).id)
        session.execute(update(Study).values(finished_at_s=Study.finished_at_s - 2 * SECONDS_PER_DAY))
    assert pruning.prune(database, Retention(1)).studies == 5


def kept_check(database: Database, id: str, age_days: float, *, archived: bool = False) -> None:
    with database.write() as session:
        row = KeptCheck(
            id=id, created_at_s=now_s(session) - age_days * SECONDS_PER_DAY, visibility="public", archived=archived, name="a",
            taken_from={}, status="passed", version="0", metrics={}, lines=[], document={},
        )  # fmt: skip
        session.add(row)
        session.flush()
        repository.add_idempotent(session, answer(id, id, now_s(session)))


def test_old_checks_go_where_they_are_not_archived_and_are_kept_for_ever_unless_asked_otherwise(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_FIRST", 1)
    for id, age_days, archived in (("old", 10, False), ("older", 20, False), ("put away", 30, True), ("new", 1, False)):
        kept_check(database, id, age_days, archived=archived)
    assert pruning.prune(database, Retention()) == Pruned(0, 0, 0, 0)
    assert pruning.count(database, Retention(checks_days=15)) == Pruned(0, 0, 0, 1)
    assert pruning.count(database, Retention(checks_days=5, archived=True)).checks == 3
    assert pruning.prune(database, Retention(checks_days=5)).checks == 2
    with database.read() as session:
        assert set(session.scalars(select(KeptCheck.id))) == {"put away", "new"}
        assert set(session.scalars(select(IdempotencyRecord.key))) == {"put away", "new"}


def test_the_command_says_what_it_deletes(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(database)
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", database_url)
    monkeypatch.setenv("MESHPLAN_KEEP_STUDIES_DAYS", "9")
    assert main(["db", "prune", "--dry-run", "--audit-days", "9"]) == DONE
    assert (
        capsys.readouterr().out == "Would delete 1 studies, 1 audit records, 1 kept answers, 0 checks, 0 runs, 0 calibrations.\n"
    )
    assert main(["db", "prune", "--studies-days", "0", "--json"]) == DONE
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 1, "dry_run": False, "studies": 0, "audit_records": 0, "kept_answers": 1, "checks": 0,
        "runs": 0, "calibrations": 0,
    }  # fmt: skip
    with database.write() as session:
        session.execute(update(Study).values(archived=True))
    assert main(["db", "prune", "--dry-run"]) == DONE
    assert (
        capsys.readouterr().out == "Would delete 0 studies, 0 audit records, 0 kept answers, 0 checks, 0 runs, 0 calibrations.\n"
    )
    assert main(["db", "prune", "--archived"]) == DONE
    assert capsys.readouterr().out == "Deleted 1 studies, 0 audit records, 0 kept answers, 0 checks, 0 runs, 0 calibrations.\n"
    kept_check(database, "old", 10)
    monkeypatch.setenv("MESHPLAN_KEEP_CHECKS_DAYS", "9")
    assert main(["db", "prune", "--dry-run", "--checks-days", "0"]) == DONE
    assert (
        capsys.readouterr().out == "Would delete 0 studies, 0 audit records, 0 kept answers, 0 checks, 0 runs, 0 calibrations.\n"
    )
    assert main(["db", "prune"]) == DONE
    assert capsys.readouterr().out == "Deleted 0 studies, 0 audit records, 0 kept answers, 1 checks, 0 runs, 0 calibrations.\n"
    assert main(["db", "prune", "--studies-days", "-1"]) == BAD_INPUT
    assert "--studies-days: -1 is not allowed; give an integer from 0 to 3,650" in capsys.readouterr().err


def test_sqlite_does_not_write_what_a_deletion_frees(database: Database) -> None:
    """Some builds (SQLITE_SECURE_DELETE) overwrite every page that gets free, unless a connection asks them not to."""
    path = database.url.database
    if database.url.drivername != "sqlite" or path is None:
        pytest.skip("of SQLite")
    old, *_ = fill(database)
    with database.write() as session:
        session.execute(update(Study).where(Study.id == old).values(note="x" * 4_000_000))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    assert pruning.prune(database, Retention(9)).studies == 1
    assert Path(f"{path}-wal").stat().st_size < 1_000_000
