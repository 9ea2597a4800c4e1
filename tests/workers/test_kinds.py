"""Studies of every kind but a search: their answer is that of the command, however often they are put back, killed or stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from app.rl.job import parse_rl_job
from app.rl.service import rl_search_document
from app.storage.session import Database
from app.storage.tables import Study
from app.studies import repository, service
from app.studies.errors import StudyNotFound
from app.studies.kinds import KINDS
from app.sweeps.points import Source
from app.sweeps.service import sweep_document
from app.text.json_documents import plain
from app.workers.supervisor import Workers
from tests.workers.test_kill import lease_holders, options, states, wait_for, waiting
from tests.workers.test_runner import MAX_ATTEMPTS, claim, run, stop_after, view

SWEEP_JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e12},
    "search": {"cp": 1, "pp": {"max": 4}, "vpp": {"max": 4}, "recompute": ["none", "full"]},
    "sweep": {"devices": [8, 16, 32], "hardware": ["atlas-800t-a2", "h100-sxm-80gb"]},
}
RL_JOB: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 32},
    "post_training": {"prompts": 32, "samples": 4, "lengths": {"mean": 500, "cap": 1000}, "max_staleness": 1},
    "strategy": {"tp": 2},
}
NUM_KILLS = 5


@dataclass(frozen=True)
class Case:
    """A job of a kind, what the command says of it, and how much a cut study of it has done."""

    kind: str
    job: dict[str, Any]
    direct: Callable[[dict[str, Any]], dict[str, Any]]
    done: str


def _swept(job: dict[str, Any]) -> dict[str, Any]:
    return plain(sweep_document(Source(job)))


def _placed(job: dict[str, Any]) -> dict[str, Any]:
    return {**plain(rl_search_document(parse_rl_job(job))), "why_none": None}


CASES = {"sweep": Case("sweep", SWEEP_JOB, _swept, "num_done"), "rl": Case("rl", RL_JOB, _placed, "priced")}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def create(database: Database, case: Case, **changes: Any) -> str:
    kind = KINDS[case.kind]
    asked = kind.asked({**case.job, **changes}, database)
    with database.write() as session:
        return service.create_study(session, kind, asked).id


def timeless(document: dict[str, Any] | None) -> dict[str, Any]:
    assert document is not None
    found: dict[str, Any] = json.loads(json.dumps(document))
    found.pop("elapsed_s", None)
    return found


@cache
def direct(name: str) -> dict[str, Any]:
    return timeless(CASES[name].direct(CASES[name].job))


def test_a_study_answers_as_the_command_does(database: Database, case: Case) -> None:
    study_id = create(database, case)
    assert view(database, study_id).kind == case.kind
    assert run(database) == "completed"
    study = view(database, study_id)
    assert timeless(study.result) == direct(case.kind)
    assert (study.assumptions, study.warnings) == (direct(case.kind)["assumptions"], direct(case.kind)["warnings"])
    assert study.progress is not None
    assert study.progress["done_fraction"] == 1.0


def test_a_study_put_back_after_every_step_ends_as_one_that_ran_through(database: Database, case: Case) -> None:
    study_id = create(database, case)
    attempts = 1
    while run(database, stop_after(1)) == "queued":
        attempts += 1
        assert attempts < MAX_ATTEMPTS
    assert attempts > 3
    assert timeless(view(database, study_id).result) == direct(case.kind)


def test_a_study_whose_worker_dies_keeps_what_it_has_done(database: Database, case: Case) -> None:
    class Killed(BaseException):
        """As kill -9 is to a process: nothing is tidied up."""

    def kill() -> bool:
        raise Killed

    study_id = create(database, case)
    done = []
    for steps in (1, 0, 4, 3):
        lives = iter([False] * steps)
        with pytest.raises(Killed):
            run(database, lambda lives=lives: next(lives, None) is None and kill())
        with database.write() as session:
            session.execute(update(Study).values(lease_expires_at_s=0.0))
        progress = view(database, study_id).progress
        done.append(0.0 if progress is None else progress["done_fraction"])
    assert done == sorted(done)
    assert done[-1] > done[0] > 0.0
    assert run(database) == "completed"
    assert timeless(view(database, study_id).result) == direct(case.kind)


def test_a_cancelled_study_keeps_what_it_found_and_goes_on_to_the_same_answer(database: Database, case: Case) -> None:
    study_id = create(database, case)
    steps = iter(range(100))

    def cancel_in_the_third_step() -> bool:
        if next(steps) == 2:
            with database.write() as session:
                service.cancel_study(session, study_id)
        return False

    assert run(database, cancel_in_the_third_step) == "cancelled"
    cut = view(database, study_id).result
    assert cut is not None
    assert cut["stopped_by"] == "interrupt"
    assert 0 < cut[case.done]
    with database.write() as session:
        service.resume_study(session, study_id)
    assert run(database) == "completed"
    assert timeless(view(database, study_id).result) == direct(case.kind)


def test_a_study_cancelled_before_its_first_step_has_no_result_and_can_be_resumed(database: Database, case: Case) -> None:
    study_id = create(database, case)
    claim(database)  # by a worker that dies
    with database.write() as session:
        service.cancel_study(session, study_id)
        session.execute(update(Study).values(lease_expires_at_s=0.0))
    assert run(database) == "cancelled"
    assert view(database, study_id).result is None
    with database.write() as session:
        service.resume_study(session, study_id)
    assert run(database) == "completed"


def test_a_checkpoint_of_another_version_is_not_continued(database: Database, case: Case) -> None:
    study_id = create(database, case)
    run(database, stop_after(4))
    with database.write() as session:
        study = repository.find_study(session, study_id)
        assert study is not None
        assert study.checkpoint is not None
        study.checkpoint = {"version": "0.0.0", "search": {"format": "of old"}}
    assert run(database) == "completed"
    assert timeless(view(database, study_id).result) == direct(case.kind)


def test_a_repeated_study_gives_the_same_answer(database: Database, case: Case) -> None:
    study_id = create(database, case)
    with database.write() as session:
        again = service.repeat_study(session, study_id).id
    assert run(database) == "completed"
    assert run(database) == "completed"
    assert view(database, again).kind == case.kind
    assert timeless(view(database, again).result) == timeless(view(database, study_id).result)


@pytest.mark.slow
def test_a_study_survives_the_death_of_its_workers(database: Database, database_url: str, case: Case) -> None:
    moments = random.Random(20)
    ids = [create(database, case)]
    num_kills = 0
    with Workers(2, options(database_url)):
        with waiting(f"{NUM_KILLS} kills of workers that hold a study") as looks:
            for _ in looks:
                if states(database, ids).count("running") == 0 and "queued" not in states(database, ids):
                    ids.append(create(database, case))
                holders = lease_holders(database, ids)
                time.sleep(moments.uniform(0.0, 0.4) if holders else 0.0)
                for pid in holders:
                    if psutil.pid_exists(pid):
                        os.kill(pid, signal.SIGKILL)
                        num_kills += 1
                if num_kills >= NUM_KILLS:
                    break
        wait_for(database, ids, "completed")
    for study_id in ids:
        assert timeless(view(database, study_id).result) == direct(case.kind)
    with database.read() as session:
        assert sum(service.get_study(session, study_id).attempts for study_id in ids) > len(ids)


def test_points_of_a_sweep_are_read_while_it_runs_and_go_with_it(database: Database) -> None:
    study_id = create(database, CASES["sweep"])
    attempts = 0
    while len(points(database, study_id)) < 2:
        assert run(database, stop_after(1)) == "queued"
        attempts += 1
        assert attempts < MAX_ATTEMPTS
    found = [{name: value for name, value in point.items() if value is not None} for point in points(database, study_id)]
    whole = direct("sweep")["points"][: len(found)]
    assert all(point.items() <= expected.items() for point, expected in zip(found, whole, strict=True))
    with database.write() as session:
        service.delete_study(session, study_id)
    with pytest.raises(StudyNotFound):
        points(database, study_id)


def points(database: Database, study_id: str) -> list[dict[str, Any]]:
    with database.read() as session:
        return list(service.list_points(session, study_id).items)


def test_a_sweep_runs_on_the_profiles_and_constants_that_it_holds(database: Database) -> None:
    study_id = create(database, CASES["sweep"])
    with database.write() as session:
        study = repository.find_study(session, study_id)
        assert study is not None
        profiles, calibrations = json.loads(json.dumps(study.hardware_profile)), json.loads(json.dumps(study.calibration))
        for name in ("hbm_bytes", "usable_hbm_bytes"):
            profiles["atlas-800t-a2"][name]["value"] *= 2
        calibrations["ascend"]["constants"]["matmul_fraction"] /= 2
        study.hardware_profile, study.calibration = profiles, calibrations
    assert run(database) == "completed"
    result, today = view(database, study_id).result, direct("sweep")
    assert result is not None
    best, best_today = result["points"][0], today["points"][0]
    assert best["step_time_s"] > 1.3 * best_today["step_time_s"]
    assert best["peak_memory_bytes"] + best["headroom_bytes"] > 1.9 * (
        best_today["peak_memory_bytes"] + best_today["headroom_bytes"]
    )
    assert [point["step_time_s"] for point in result["points"][3:]] == [point["step_time_s"] for point in today["points"][3:]]


def test_a_time_limit_is_of_all_points_and_all_attempts(database: Database) -> None:
    study_id = create(database, CASES["sweep"], search={**SWEEP_JOB["search"], "time_limit_s": 1e-6})
    assert run(database) == "completed"
    result = view(database, study_id).result
    assert result is not None
    assert (result["stopped_by"], result["num_done"], result["num_points"]) == ("time_limit", 1, 6)


def test_a_search_of_placements_that_finds_none_is_completed_and_says_why(database: Database) -> None:
    study_id = create(database, CASES["rl"], strategy={"tp": 8, "pp": 5})
    assert run(database) == "completed"
    result = view(database, study_id).result
    assert result is not None
    assert (result["best"], result["plans"], result["num_done"]) == (None, [], result["num_splits"])
    assert "No placement holds the job" in result["why_none"]


def test_a_time_limit_ends_a_search_of_placements_with_what_it_has_priced(database: Database) -> None:
    study_id = create(database, CASES["rl"], post_training={**RL_JOB["post_training"], "time_limit_s": 1e-6})
    assert run(database) == "completed"
    result = view(database, study_id).result
    assert result is not None
    assert (result["stopped_by"], result["num_done"] < result["num_splits"]) == ("time_limit", True)
    assert result["best"]["step_time_s"] == result["plans"][0]["step_time_s"]
