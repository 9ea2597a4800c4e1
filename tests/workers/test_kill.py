"""Workers killed with kill -9 at random moments: every study ends, with the answer it would have had."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.storage.session import Database
from app.storage.upgrade import upgrade
from app.studies import repository, service
from app.workers.options import WorkerOptions
from app.workers.supervisor import Workers
from tests.study_jobs import queued, small_job
from tests.workers.test_runner import answer, direct

ROOT = Path(__file__).resolve().parents[2]
NUM_KILLS = 6  # on each database
MAX_WAIT_S = 180.0  # of a machine that does much else
# Long enough to be hit: each has dozens of steps.
LATTICE: dict[str, Any] = {"pp": {"max": 16}, "vpp": {"max": 8}, "micro_batch_size": [1, 2, 4]}
SAMPLER: dict[str, Any] = {"sampler": "nsga2", "max_trials": 640, "seed": 1}


def options(url: str, **changes: Any) -> WorkerOptions:
    return WorkerOptions(**{"url": url, "lease_s": 1.0, "checkpoint_s": 0.05, "log_format": "json", **changes})


@contextmanager
def waiting(what: str) -> Iterator[Any]:
    """Hands out looks at something until the block breaks off; fails after a while."""
    ends_s = time.monotonic() + MAX_WAIT_S

    def looks() -> Iterator[None]:
        while time.monotonic() < ends_s:
            yield
            time.sleep(0.05)
        pytest.fail(f"waited {MAX_WAIT_S} s for {what}")

    yield looks()


def create(database: Database, **search: Any) -> str:
    with database.write() as session:
        return queued(session, small_job(**search)).id


def states(database: Database, ids: list[str]) -> list[str]:
    with database.read() as session:
        return [service.get_state(session, study_id) for study_id in ids]


def wait_for(database: Database, ids: list[str], *wanted: str) -> None:
    with waiting(f"{ids} to be {wanted}") as looks:
        for _ in looks:
            if all(state in wanted for state in states(database, ids)):
                return


@pytest.mark.slow
def test_studies_survive_the_death_of_their_workers(database: Database, database_url: str) -> None:
    moments = random.Random(20)
    searches = [LATTICE, SAMPLER]
    ids = [create(database, **search) for search in searches]
    num_kills = 0
    with Workers(2, options(database_url)) as workers:
        with waiting(f"{NUM_KILLS} kills of workers that hold a study") as looks:
            for _ in looks:
                if states(database, ids).count("running") == 0 and "queued" not in states(database, ids):
                    searches.append(searches[len(ids) % 2])
                    ids.append(create(database, **searches[-1]))
                holders = lease_holders(database, ids)
                if not holders:
                    continue
                time.sleep(moments.uniform(0.0, 0.4))
                for pid in holders:
                    if psutil.pid_exists(pid):
                        os.kill(pid, signal.SIGKILL)
                        num_kills += 1
                if num_kills >= NUM_KILLS:
                    break
        wait_for(database, ids, "completed")
        assert num_kills >= NUM_KILLS
        assert len(workers.pids) == 2
    for study_id, search in zip(ids, searches, strict=True):
        assert answer(database, study_id) == direct(**search)
        with database.read() as session:
            trials = service.list_trials(session, study_id, limit=10_000).items
        assert [trial.number for trial in trials] == list(range(search.get("max_trials", 0)))
    with database.read() as session:
        assert sum(service.get_study(session, study_id).attempts for study_id in ids) > len(ids)


def lease_holders(database: Database, ids: list[str]) -> list[int]:
    """Processes that hold one of the studies."""
    with database.read() as session:
        studies = [repository.find_study(session, study_id) for study_id in ids]
    owners = [study.lease_owner for study in studies if study is not None and study.state == "running"]
    return [int(owner.rpartition(":")[2]) for owner in owners if owner]


@pytest.mark.slow
def test_two_workers_share_the_queue_and_no_study_is_run_twice(database: Database, database_url: str) -> None:
    ids = [create(database, sampler="random", max_trials=32, seed=seed) for seed in range(12)]
    with Workers(2, options(database_url, lease_s=10.0)):
        wait_for(database, ids, "completed")
    with database.read() as session:
        studies = [service.get_study(session, study_id) for study_id in ids]
        assert [study.attempts for study in studies] == [1] * len(ids)
        for study_id in ids:
            assert len(service.list_trials(session, study_id, limit=100).items) == 32


def test_a_worker_that_is_asked_to_end_puts_its_study_back(database: Database, database_url: str) -> None:
    ids = [create(database, **{**SAMPLER, "max_trials": 100_000})]
    with Workers(1, options(database_url, lease_s=10.0)):
        wait_for(database, ids, "running")
        with waiting("progress") as looks:
            for _ in looks:
                with database.read() as session:
                    progress = service.get_study(session, ids[0]).progress
                if progress:
                    break
    assert states(database, ids) == ["queued"]
    with database.write() as session:
        assert service.cancel_study(session, ids[0]).state == "cancelled"
        assert service.list_trials(session, ids[0], limit=1).items


def test_a_cancelled_study_stops_at_once(database: Database, database_url: str) -> None:
    ids = [create(database, **{**SAMPLER, "max_trials": 100_000})]
    with Workers(1, options(database_url)):
        wait_for(database, ids, "running")
        time.sleep(0.3)
        with database.write() as session:
            service.cancel_study(session, ids[0])
        asked_s = time.monotonic()
        wait_for(database, ids, "cancelled")
        assert time.monotonic() - asked_s < 10.0
    with database.read() as session:
        study = service.get_study(session, ids[0])
    assert study.result is not None
    assert study.result["proof"]["stopped_by"] == "interrupt"


START = """
import sys, time
from app.workers.options import WorkerOptions
from app.workers.supervisor import Workers
if __name__ == "__main__":
    workers = Workers(2, WorkerOptions(sys.argv[1], 1.0, 0.05, "json"))
    print(*workers.pids, flush=True)
    time.sleep(120)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_die_with_their_parent_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    upgrade(url)
    script = tmp_path / "parent.py"
    script.write_text(START, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script, url], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        time.sleep(1.0)
        workers = [psutil.Process(pid) for pid in pids]
        assert len(workers) == 2
        parent.send_signal(number)
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert (len(gone), alive) == (2, [])


def test_workers_leave_the_cores_to_the_requests_of_their_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    upgrade(url)
    with Workers(1, options(url, niceness=3)) as workers:
        (pid,) = workers.pids
        expected = psutil.Process().nice() + 3
        with waiting("the worker to lower its priority") as looks:
            for _ in looks:
                if psutil.Process(pid).nice() == expected:
                    break


def test_a_worker_process_computes_on_one_thread() -> None:
    script = (
        "import os, threading\n"
        "from app.workers import options, preloaded, process\n"
        "from unittest import mock\n"
        "with mock.patch('app.workers.loop.work', lambda *_: print(os.environ['OMP_NUM_THREADS'])):\n"
        "    process.main(options.WorkerOptions('sqlite:///none', 1.0, 1.0, 'text'))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "1"
