"""``meshplan worker`` and ``meshplan db upgrade`` as a user starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import text

from app.storage.session import Database
from app.storage.tables import VERSION_TABLE
from app.studies import service
from tests.commands import ROOT, command
from tests.study_jobs import queued, small_job
from tests.workers.test_kill import waiting


def run(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(*arguments, MESHPLAN_DATABASE_URL=url, MESHPLAN_LOG_FORMAT="json")


def test_upgrade_then_work_then_stop(empty_url: str) -> None:
    refused = run(empty_url, "worker")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "; run `meshplan db upgrade`." in refused.stderr
    upgraded = run(empty_url, "db", "upgrade")
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert "has schema 0007." in upgraded.stdout
    with Database(empty_url) as database:
        with database.write() as session:
            study_id = queued(session, small_job()).id
        environment = {**os.environ, "MESHPLAN_DATABASE_URL": empty_url, "MESHPLAN_LOG_FORMAT": "json"}
        started = [sys.executable, "-m", "meshplan", "worker"]
        worker = subprocess.Popen(started, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        with worker, waiting("the study") as looks:
            for _ in looks:
                with database.read() as session:
                    if service.get_state(session, study_id) == "completed":
                        break
            worker.send_signal(signal.SIGTERM)
            _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "1 worker takes studies from" in said
    assert f'"study": "{study_id}"' in said


def test_a_database_of_a_newer_version_is_bad_input(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    assert run(url, "db", "upgrade").returncode == 0
    with Database(url) as database, database.write() as session:
        session.execute(text(f"update {VERSION_TABLE} set version_num = '9999'"))
    for arguments in (("db", "upgrade"), ("worker",)):
        refused = run(url, *arguments)
        assert refused.returncode == 2
        assert refused.stderr.startswith("meshplan: The database has schema 9999, which a newer meshplan wrote")
        assert refused.stderr.count("\n") == 1
