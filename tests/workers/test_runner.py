"""One attempt at a study, in this process: its answer is that of a search without a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.answers.search import search_document
from app.storage.session import Database
from app.storage.tables import Study
from app.studies import queue, repository, runner, service
from app.studies.queue import Lease, LeaseLostError
from app.studies.runner import StudyRun
from app.studies.schemas import StudyDocument
from app.studies.work import Work
from app.text.json_documents import json_text
from search.exhaustive.lattice_search import LatticeSearch
from search.sampled.sampler_search import BATCH_TRIALS
from search.session.progress import SEARCHED
from tests.study_jobs import queued, small_job

NUM_TRIALS = 4 * BATCH_TRIALS
SAMPLER = {"sampler": "nsga2", "max_trials": NUM_TRIALS, "seed": 5}
TARGET = {"target": "mindspeed-llm"}
SEARCHES = pytest.mark.parametrize("search", [{}, TARGET, SAMPLER], ids=["exhaustive", "launchable", "nsga2"])
MAX_ATTEMPTS = 100  # of a study whose worker is told to stop after each step
FOUND = ("counts", "proof", "baseline", "nearest", "physics_best", "nearest_launchable")


def create(database: Database, **search: Any) -> str:
    with database.write() as session:
        return queued(session, small_job(**search)).id


def claim(database: Database) -> Lease:
    with database.write() as session:
        lease = queue.claim(session, "a test", 10.0)
    assert lease is not None
    return lease


def run(database: Database, should_stop: Callable[[], bool] = lambda: False, checkpoint_s: float = 0.0) -> str:
    return StudyRun(database, claim(database), checkpoint_s=checkpoint_s, should_stop=should_stop).run()


def view(database: Database, study_id: str) -> StudyDocument:
    with database.read() as session:
        return service.get_study(session, study_id)


def answer(database: Database, study_id: str) -> dict[str, Any]:
    """What a study found, but for the time that it took."""
    with database.read() as session:
        study = service.get_study(session, study_id)
        assert study.result is not None
        return {
            **{name: study.result[name] for name in FOUND},
            "assumptions": study.assumptions,
            "plans": list(service.list_plans(session, study_id, limit=100).items),
            "rejections": [asdict(row) for row in service.list_rejections(session, study_id, limit=100).items],
        }


def direct(**search: Any) -> dict[str, Any]:
    """The same search without a database."""
    document = json.loads(_searched(json.dumps(search)))
    return {name: document[name] for name in (*FOUND, "assumptions", "plans", "rejections")}


@cache
def _searched(search: str) -> str:
    return json_text(search_document(small_job(**json.loads(search))))


def stop_after(num_steps: int) -> Callable[[], bool]:
    answers: Iterator[bool] = iter([False] * (num_steps - 1) + [True] * 1000)
    return lambda: next(answers)


def test_what_is_saved_is_made_before_the_transaction_for_which_all_writers_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(database, **SAMPLER)
    writing, made_while_writing = [False], []
    write, checkpoint_of = Database.write, runner.checkpoint_of

    @contextmanager
    def watched(self: Database) -> Iterator[Session]:
        with write(self) as session:
            writing[0] = True
            yield session
        writing[0] = False

    def noted(work: Work) -> dict[str, Any]:
        made_while_writing.append(writing[0])
        return checkpoint_of(work)

    monkeypatch.setattr(Database, "write", watched)
    monkeypatch.setattr(runner, "checkpoint_of", noted)
    assert run(database) == "completed"
    assert len(made_while_writing) > 2
    assert not any(made_while_writing)


@SEARCHES
def test_a_study_finds_what_the_same_search_finds_without_a_database(database: Database, search: dict[str, Any]) -> None:
    study_id = create(database, **search)
    assert run(database) == "completed"
    assert answer(database, study_id) == direct(**search)
    study = view(database, study_id)
    assert study.progress is not None
    assert study.progress["done_fraction"] == 1.0
    assert study.started_at_s is not None
    assert study.finished_at_s is not None
    with database.read() as session:
        stored = repository.find_study(session, study_id)
        assert stored is not None
        assert (stored.checkpoint, stored.lease_owner, stored.lease_expires_at_s) == (None, None, None)


def test_no_study_says_that_all_is_done_while_its_plans_are_explained(database: Database) -> None:
    study_id = create(database)
    seen: list[dict[str, Any]] = []
    with mock.patch.object(queue.repository, "announce_progress", lambda _, __, progress: seen.append(progress)):
        assert run(database, checkpoint_s=0.0) == "completed"
    shares = [progress["done_fraction"] for progress in seen]
    assert shares == sorted(shares)
    assert {progress["phase"] for progress in seen if SEARCHED < progress["done_fraction"] < 1.0} == {"explain"}
    assert shares.index(1.0) == len(shares) - 1
    assert view(database, study_id).progress == seen[-1]


@SEARCHES
def test_a_study_put_back_after_every_step_ends_as_one_that_ran_through(database: Database, search: dict[str, Any]) -> None:
    study_id = create(database, **search)
    attempts = 1
    while run(database, stop_after(1)) == "queued":
        attempts += 1
        assert attempts < MAX_ATTEMPTS
        assert view(database, study_id).state == "queued"
    assert attempts > 3
    assert view(database, study_id).attempts == attempts
    assert answer(database, study_id) == direct(**search)


@SEARCHES
def test_a_study_whose_worker_dies_loses_no_trial_and_counts_none_twice(database: Database, search: dict[str, Any]) -> None:
    class Killed(BaseException):
        """As kill -9 is to a process: nothing is tidied up."""

    def kill() -> bool:
        raise Killed

    study_id = create(database, **search)
    for steps in (1, 0, 1):
        lives = iter([False] * steps)
        with pytest.raises(Killed):
            run(database, lambda lives=lives: next(lives, None) is None and kill())
        with database.write() as session:
            session.execute(update(Study).values(lease_expires_at_s=0.0))
    assert run(database) == "completed"
    assert answer(database, study_id) == direct(**search)
    with database.read() as session:
        trials = service.list_trials(session, study_id, limit=1000).items
    assert [trial.number for trial in trials] == list(range(search.get("max_trials", 0)))


def test_workers_that_die_after_their_first_step_get_a_study_to_its_end(database: Database) -> None:
    """Checkpoints are a minute apart, and no worker lives for two steps: the first is saved at once."""

    class Killed(BaseException):
        """As kill -9 is to a process: nothing is tidied up."""

    def kill() -> bool:
        raise Killed

    study_id = create(database)
    for _ in range(queue.MAX_ATTEMPTS_WITHOUT_PROGRESS + 5):
        lives = iter([False])
        try:
            run(database, lambda lives=lives: next(lives, None) is None and kill(), checkpoint_s=60.0)
            break
        except Killed:
            with database.write() as session:
                study = repository.find_study(session, study_id)
                assert study is not None
                assert study.attempts_without_progress == 0
                study.lease_expires_at_s = 0.0
    study_now = view(database, study_id)
    assert study_now.state == "completed"
    assert study_now.attempts > 3
    assert answer(database, study_id) == direct()


def test_trials_are_stored_as_they_are_told(database: Database) -> None:
    study_id = create(database, **SAMPLER)
    run(database, stop_after(2))
    with database.read() as session:
        trials = service.list_trials(session, study_id, limit=1000).items
    assert [trial.number for trial in trials] == list(range(2 * BATCH_TRIALS))
    assert trials[0].source == "baseline"
    fitting = [trial.value for trial in trials if trial.outcome == "fits"]
    assert trials[-1].best_value == min(fitting)
    assert {trial.strategy["tp"] for trial in trials} > {1}
    progress = view(database, study_id).progress
    assert progress is not None
    assert progress["sampled"] == 2 * BATCH_TRIALS


@SEARCHES
def test_a_cancelled_study_keeps_what_it_found_and_goes_on_to_the_same_answer(database: Database, search: dict[str, Any]) -> None:
    study_id = create(database, **search)
    steps = iter(range(100))

    def cancel_in_the_second_step() -> bool:
        if next(steps) == 1:
            with database.write() as session:
                service.cancel_study(session, study_id)
        return False

    assert run(database, cancel_in_the_second_step) == "cancelled"
    assert next(steps) == 2  # the step after the request was the last
    found = answer(database, study_id)
    assert found["plans"]
    assert found["proof"]["stopped_by"] == "interrupt"
    with database.write() as session:
        service.resume_study(session, study_id)
    assert run(database) == "completed"
    assert answer(database, study_id) == direct(**search)


def test_a_study_whose_worker_died_after_it_was_cancelled_ends_as_cancelled(database: Database) -> None:
    study_id = create(database)
    run(database, stop_after(2))
    claim(database)
    with database.write() as session:
        service.cancel_study(session, study_id)
        session.execute(update(Study).values(lease_expires_at_s=0.0))
    assert run(database) == "cancelled"
    assert answer(database, study_id)["plans"]


@SEARCHES
def test_a_repeated_study_gives_the_same_answer(database: Database, search: dict[str, Any]) -> None:
    study_id = create(database, **search)
    run(database)
    with database.write() as session:
        again = service.repeat_study(session, study_id).id
    run(database)
    assert answer(database, again) == answer(database, study_id)


def test_a_study_runs_on_the_inputs_that_it_holds_not_on_those_of_today(database: Database) -> None:
    study_id = create(database)
    with database.write() as session:
        study = repository.find_study(session, study_id)
        assert study is not None
        calibration = json.loads(json.dumps(study.calibration))
        calibration["constants"]["matmul_fraction"] /= 2
        profile = json.loads(json.dumps(study.hardware_profile))
        profile["hbm_bytes"]["value"] *= 2
        profile["usable_hbm_bytes"]["value"] *= 2
        study.calibration, study.hardware_profile = calibration, profile
        study.space = {**study.space, "tp": [2]}
    run(database)
    found, today = answer(database, study_id), direct()
    assert {plan["strategy"]["tp"] for plan in found["plans"]} == {2}
    best, best_today = found["plans"][0]["estimate"], today["plans"][0]["estimate"]
    assert best["memory_limit_bytes"] == 2 * best_today["memory_limit_bytes"]
    assert best["step_time_s"] > 1.3 * best_today["step_time_s"]


@SEARCHES
def test_a_checkpoint_of_another_version_is_not_continued(database: Database, search: dict[str, Any]) -> None:
    study_id = create(database, **search)
    run(database, stop_after(2))
    with database.write() as session:
        study = repository.find_study(session, study_id)
        assert study is not None
        assert study.checkpoint is not None
        study.checkpoint = {**study.checkpoint, "version": "0.0.0", "search": {"format": "of old"}}
    assert run(database) == "completed"
    assert answer(database, study_id) == direct(**search)


def test_a_time_limit_ends_a_study_as_completed_and_the_proof_says_so(database: Database) -> None:
    study_id = create(database, time_limit_s=1e-6)
    assert run(database) == "completed"
    found = answer(database, study_id)
    assert found["proof"]["stopped_by"] == "time_limit"
    assert found["plans"]


def test_the_time_limit_of_searches_that_somebody_waits_for_is_none_of_studies(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHPLAN_SEARCH_S", "0.000001")
    study_id = create(database)
    assert run(database) == "completed"
    assert answer(database, study_id)["proof"]["stopped_by"] is None


def test_a_study_that_takes_more_memory_than_it_may_is_cut(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    held = iter(range(0, 100 << 30, 1 << 30))  # 1 GiB more at each look
    monkeypatch.setattr("search.session.runner.resident_bytes", lambda: next(held))
    study_id = create(database)
    assert run(database) == "completed"
    assert answer(database, study_id)["proof"]["stopped_by"] == "memory_limit"


def test_a_study_without_a_plan_is_completed(database: Database) -> None:
    study_id = create(database, tp=1, pp=1, micro_batch_size=8, recompute="none", swap_optimizer=False)
    assert run(database) == "completed"
    assert answer(database, study_id)["plans"] == []
    result = view(database, study_id).result
    assert result is not None
    assert "No strategy is legal" in result["nearest"]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("hardware_profile", {"name": "broken"}, "title: missing"),
        ("space", {"tp": [1]}, "space: not one that a search of this version can read"),
        ("job", {"model": "no-such-model"}, "cluster.hardware: missing"),
    ],
)
def test_inputs_that_cannot_be_read_fail_the_study_with_a_sentence(
    database: Database, column: str, value: dict[str, Any], reason: str
) -> None:
    study_id = create(database)
    with database.write() as session:
        session.execute(update(Study).values({column: value}))
    assert run(database) == "failed"
    study = view(database, study_id)
    assert study.error is not None
    assert reason in study.error
    assert "\n" not in study.error


def test_a_fault_of_ours_fails_the_study_and_what_was_saved_stays(database: Database) -> None:
    study_id = create(database)
    advance = LatticeSearch.advance
    steps = iter(range(100))

    def broken(search: LatticeSearch) -> bool:
        if next(steps) == 3:
            raise ZeroDivisionError("two things at once")
        return advance(search)

    with mock.patch.object(LatticeSearch, "advance", broken):
        assert run(database) == "failed"
    study = view(database, study_id)
    assert study.error == "Internal error: ZeroDivisionError: two things at once"
    assert study.progress is not None
    assert 0 < study.progress["done_fraction"] < 1
    with database.write() as session:
        service.resume_study(session, study_id)
    assert run(database) == "completed"
    assert answer(database, study_id) == direct()


def test_a_database_that_goes_away_fails_no_study(database: Database) -> None:
    study_id = create(database)
    lost = OperationalError("update", {}, Exception("server closed the connection"))
    with mock.patch.object(queue, "save", side_effect=lost), pytest.raises(OperationalError):
        run(database)
    assert view(database, study_id).state == "running"


def test_a_deleted_study_stops_its_worker(database: Database) -> None:
    study_id = create(database)

    def delete() -> bool:
        with database.write() as session:
            session.execute(update(Study).values(state="failed"))
            service.delete_study(session, study_id)
        return False

    with pytest.raises(LeaseLostError):
        run(database, delete)
