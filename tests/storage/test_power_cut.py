"""A power cut at the moment of an answer takes nothing back that was answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from app.storage.session import Database
from app.storage.tables import Study
from app.studies import repository

ROOT = Path(__file__).resolve().parents[2]
NUM_STUDIES = 3


def studies(folder: Path, synchronous: str) -> list[str]:
    """Ids that were answered 202, in order."""
    command = [sys.executable, "-m", "tests.storage.power_cut", str(folder), synchronous, str(NUM_STUDIES)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("study ")]


def held(image: Path, ids: list[str]) -> list[bool]:
    """Which of the studies are on the disk after the cut; the file must be whole in any case."""
    with Database(f"sqlite:///{image / 'studies.db'}") as database, database.read() as session:
        assert session.execute(text("pragma integrity_check")).scalar() == "ok"
        if not inspect(session.connection()).has_table(Study.__tablename__):
            return [False] * len(ids)
        return [repository.find_study(session, study) is not None for study in ids]


@pytest.mark.skipif(sys.platform != "linux", reason="finds SQLite's library by /proc")
def test_what_was_answered_202_is_there_after_a_power_cut(tmp_path: Path) -> None:
    ids = studies(tmp_path, "as shipped")
    assert len(ids) == NUM_STUDIES
    for number in range(NUM_STUDIES):
        assert held(tmp_path / f"image-{number}", ids) == [index <= number for index in range(NUM_STUDIES)]


@pytest.mark.skipif(sys.platform != "linux", reason="finds SQLite's library by /proc")
def test_the_simulated_cut_takes_back_what_was_not_synchronised(tmp_path: Path) -> None:
    """With less than ``synchronous=FULL``, a study that was answered is gone: the simulation above can fail."""
    ids = studies(tmp_path, "normal")
    assert not all(held(tmp_path / f"image-{NUM_STUDIES - 1}", ids))
