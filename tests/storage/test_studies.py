"""What the service promises about studies, on both databases."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import delete, insert
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import ApiKey, Event, IdempotencyRecord, Plan, Rejection, Study, Trial
from app.studies import queue, repository, service
from app.studies.errors import PlanNotFound, StudyChanged, StudyConflict, StudyNotFound
from app.studies.queue import Lease
from app.studies.schemas import Page, StudyDocument
from app.studies.work import Outcome
from app.text.json_documents import plain
from tests.study_jobs import queued, small_job

JOB = small_job()


def create(database: Database, **search: Any) -> str:
    with database.write() as session:
        return queued(session, small_job(**search) if search else JOB).id


def view(database: Database, study_id: str) -> StudyDocument:
    with database.read() as session:
        return service.get_study(session, study_id)


def claim(database: Database) -> Lease:
    with database.write() as session:
        lease = queue.claim(session, "a test", 10.0)
    assert lease is not None
    return lease


def finish(database: Database, state: str = "completed", **found: Any) -> str:
    lease = claim(database)
    with database.write() as session:
        queue.finish(session, lease, "1.0", Outcome(state, result={"counts": {}}, **found))
    return lease.study_id


def plan(rank: int, **changes: Any) -> dict[str, Any]:
    return {"rank": rank, "plan_id": f"plan{rank}", "estimate": {"step_time_s": 1.0 * rank, "peak_memory_bytes": 2.0}, **changes}


def trial(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "number": number,
        "source": "sampled",
        "outcome": "fits",
        "rule": None,
        "step_time_s": 1.5,
        "peak_memory_bytes": 2.0**36,
        "value": 1.5,
        "best_value": 1.5,
        "duplicate_of": None,
        "strategy": {"tp": 8},
        "sampler_state": {},
        **changes,
    }


def answer(key: str, **changes: Any) -> IdempotencyRecord:
    values = {"owner": "me", "body_sha256": "0", "status_code": 202, "headers": {}, "body": {"id": key}, "created_at_s": 0.0}
    return IdempotencyRecord(key=key, **{**values, **changes})


def pages(read: Callable[[int | None], Page[Any]]) -> list[Any]:
    items: list[Any] = []
    after: int | None = None
    while True:
        page = read(after)
        items += page.items
        if page.next_after is None:
            return items
        after = page.next_after


def test_a_study_holds_all_that_decides_its_answer(database: Database) -> None:
    before_s = time.time()
    study = view(database, create(database))
    assert study.state == "queued"
    assert study.job == json.loads(json.dumps(JOB.document))
    assert list(study.job) == list(JOB.document)  # in the order in which it is printed
    assert (study.model, study.hardware, study.num_devices) == ("llama-2-7b", "atlas-800t-a2", 16)
    assert (study.objective, study.sampler, study.seed) == ("step_time", "exhaustive", 0)
    assert study.hardware_profile["name"] == "atlas-800t-a2"
    assert study.space["pp"] == [1, 2, 4]
    assert study.calibration["constants"]["matmul_fraction"] > 0
    assert before_s - 1 < study.created_at_s < time.time() + 1
    assert (study.result, study.progress, study.error, study.attempts) == (None, None, None, 0)


def test_a_study_that_does_not_exist_is_told_apart(database: Database) -> None:
    for read in (service.get_study, service.get_state, service.list_plans, service.list_trials, service.list_rejections):
        with database.read() as session, pytest.raises(StudyNotFound):
            read(session, "none")
    for change in (service.cancel_study, service.resume_study, service.delete_study, service.events_since):
        with database.write() as session, pytest.raises(StudyNotFound):
            change(session, "none")
    study_id = create(database)
    with database.read() as session, pytest.raises(PlanNotFound):
        service.get_plan(session, study_id, "none")


def test_pages_of_studies_lose_none_and_repeat_none(database: Database) -> None:
    ids = [create(database) for _ in range(7)]
    with database.read() as session:
        listed = pages(lambda after: service.list_studies(session, after=after, limit=3))
        assert [study.id for study in listed] == ids[::-1]
        assert len(service.list_studies(session, limit=7).items) == 7
        assert service.list_studies(session, limit=7).next_after is None


def test_a_study_made_between_two_pages_disturbs_neither(database: Database) -> None:
    ids = [create(database) for _ in range(4)]
    with database.read() as session:
        first = service.list_studies(session, limit=2)
    create(database)
    with database.write() as session:
        service.delete_study(session, ids[3])
    with database.read() as session:
        second = service.list_studies(session, after=first.next_after, limit=2)
    assert [study.id for study in (*first.items, *second.items)] == ids[::-1]


def test_studies_are_filtered(database: Database) -> None:
    first, second = create(database), create(database, sampler="random", max_trials=3)
    with database.write() as session:
        service.cancel_study(session, first)
    with database.read() as session:
        assert [study.id for study in service.list_studies(session, service.StudyFilter(state="cancelled")).items] == [first]
        assert [
            study.id for study in service.list_studies(session, service.StudyFilter(state="queued", model="llama-2-7b")).items
        ] == [second]
        assert service.list_studies(session, service.StudyFilter(hardware="atlas-900-a3-superpod")).items == ()
        assert service.count_by_state(session) == {"cancelled": 1, "queued": 1}


def test_a_queued_study_is_cancelled_at_once_and_can_be_resumed(database: Database) -> None:
    study_id = create(database)
    with database.write() as session:
        cancelled = service.cancel_study(session, study_id)
    assert cancelled.state == "cancelled"
    assert cancelled.finished_at_s is not None
    with database.write() as session:
        assert service.cancel_study(session, study_id) == cancelled  # once more changes nothing
        resumed = service.resume_study(session, study_id)
    assert (resumed.state, resumed.finished_at_s) == ("queued", None)
    assert view(database, study_id) == resumed


def test_a_running_study_is_asked_to_stop(database: Database) -> None:
    study_id = create(database)
    lease = claim(database)
    with database.write() as session:
        asked = service.cancel_study(session, study_id)
        assert (asked.state, asked.cancel_requested) == ("running", True)
        assert service.cancel_study(session, study_id) == asked
    with database.read() as session:
        assert queue.is_cancel_requested(session, lease)
    with database.write() as session:
        with pytest.raises(StudyConflict, match="The study is running; cancel it first"):
            service.delete_study(session, study_id)
        with pytest.raises(StudyConflict, match="The study is running; only a cancelled or failed one can be resumed"):
            service.resume_study(session, study_id)


def test_a_completed_study_is_neither_cancelled_nor_resumed(database: Database) -> None:
    create(database)
    study_id = finish(database)
    with database.write() as session:
        with pytest.raises(StudyConflict, match="The study is completed; only a queued or running one can be cancelled"):
            service.cancel_study(session, study_id)
        with pytest.raises(StudyConflict, match="The study is completed"):
            service.resume_study(session, study_id)


def test_every_change_is_a_new_version_and_only_the_latest_can_be_deleted(database: Database) -> None:
    study_id = create(database)
    seen = [view(database, study_id).etag_version]
    lease = claim(database)
    seen.append(view(database, study_id).etag_version)
    with database.write() as session:
        queue.save(session, lease, {"done_fraction": 0.5}, {}, [])
    seen.append(view(database, study_id).etag_version)
    with database.write() as session:
        queue.finish(session, lease, "1.0", Outcome("failed", error="It broke."))
    seen.append(view(database, study_id).etag_version)
    assert seen == sorted(set(seen))
    with database.write() as session, pytest.raises(StudyChanged):
        service.delete_study(session, study_id, etag_version=seen[-2])
    with database.write() as session:
        service.delete_study(session, study_id, etag_version=seen[-1])
    with database.read() as session, pytest.raises(StudyNotFound):
        service.get_study(session, study_id)


def test_with_a_study_goes_all_that_belongs_to_it(database: Database) -> None:
    kept, gone = create(database), create(database)
    for study_id in (kept, gone):
        lease = claim(database)
        assert lease.study_id == study_id
        with database.write() as session:
            queue.save(session, lease, {}, {}, [trial(0)])
            rejections = [{"rule": "world_size", "count": 5, "example": "tp 3 ..."}]
            queue.finish(session, lease, "1.0", Outcome("completed", {}, [plan(1)], rejections))
            repository.add_idempotent(session, answer(study_id, study_id=study_id))
    with database.write() as session:
        service.delete_study(session, gone)
    with database.read() as session:
        for table in (Plan, Trial, Rejection, Event, IdempotencyRecord):
            assert {row.study_id for row in session.query(table)} == {kept}, table


def test_plans_trials_and_rejections_come_back_in_order_page_by_page(database: Database) -> None:
    study_id = create(database)
    lease = claim(database)
    plans = [plan(rank) for rank in range(1, 6)]
    rejections = [{"rule": f"rule{n}", "count": 10**12 - n, "example": f"tp {n}"} for n in range(5)]
    with database.write() as session:
        queue.save(session, lease, {}, {}, [trial(number) for number in range(3)])
        queue.save(session, lease, {}, {}, [trial(number, outcome="illegal", value=None) for number in range(3, 5)])
        queue.finish(session, lease, "1.0", Outcome("completed", {"counts": {"legal": 7}}, plans, rejections))
    with database.read() as session:
        assert pages(lambda after: service.list_plans(session, study_id, after=after, limit=2)) == plans
        found = pages(lambda after: service.list_rejections(session, study_id, after=after, limit=2))
        assert [asdict(row) for row in found] == rejections
        found = pages(lambda after: service.list_trials(session, study_id, after=after, limit=2))
        assert [(row.number, row.outcome) for row in found] == [
            (0, "fits"), (1, "fits"), (2, "fits"), (3, "illegal"), (4, "illegal"),
        ]  # fmt: skip
        assert "sampler_state" not in plain(found[0])
        assert service.get_plan(session, study_id, "plan2") == plans[1]
        study = service.get_study(session, study_id)
    assert study.result == {"counts": {"legal": 7}}
    assert (study.state, study.version) == ("completed", "1.0")


def test_a_failed_study_keeps_what_it_found_and_says_why(database: Database) -> None:
    study_id = create(database)
    lease = claim(database)
    with database.write() as session:
        queue.save(session, lease, {"done_fraction": 0.25}, {"step": 3}, [trial(0)])
        queue.finish(session, lease, "1.0", Outcome("failed", error="It broke."))
    study = view(database, study_id)
    assert (study.state, study.error, study.progress) == ("failed", "It broke.", {"done_fraction": 0.25})
    with database.write() as session:
        service.resume_study(session, study_id)
        stored = repository.find_study(session, study_id)
        assert stored is not None
        assert stored.checkpoint == {"step": 3}
        assert len(repository.all_records(session, Trial, study_id)) == 1
    assert view(database, study_id).error is None


def test_events_tell_a_study_from_queue_to_end_and_can_be_read_on(database: Database) -> None:
    study_id, other = create(database), create(database)
    lease = claim(database)
    for done in (0.25, 0.5):
        with database.write() as session:
            queue.save(session, lease, {"done_fraction": done}, {}, [])
    with database.read() as session:
        events = service.events_since(session, study_id)
        assert [(event.kind, event.data.get("state", event.data.get("done_fraction"))) for event in events] == [
            ("state", "queued"), ("state", "running"), ("progress", 0.25), ("progress", 0.5),
        ]  # fmt: skip
        sequences = [event.sequence for event in events]
        assert sequences == sorted(set(sequences))
        assert service.events_since(session, study_id, sequences[1]) == events[2:]
        assert service.events_since(session, study_id, 0, limit=1) == events[:1]
        assert len(service.events_since(session, other)) == 1
    with database.write() as session:
        queue.finish(session, lease, "1.0", Outcome("completed", {}))
    with database.read() as session:
        kinds = [(event.kind, event.data["state"]) for event in service.events_since(session, study_id)]
    assert kinds == [("state", "queued"), ("state", "running"), ("state", "completed")]  # old progress is dropped


def test_a_repeated_study_has_the_same_inputs(database: Database) -> None:
    create(database, sampler="tpe", seed=7, max_trials=20)
    study_id = finish(database)
    with database.write() as session:
        again = service.repeat_study(session, study_id)
    first = view(database, study_id)
    assert again.id != first.id
    assert again.state == "queued"
    for name in ("job", "space", "hardware_profile", "calibration", "seed", "sampler", "assumptions", "warnings"):
        assert getattr(again, name) == getattr(first, name), name


def test_an_answer_is_stored_once_a_key_and_forgotten_in_time(database: Database) -> None:
    with database.write() as session:
        now = now_s(session)
        repository.add_idempotent(session, answer("old", created_at_s=now - 100))
        repository.add_idempotent(session, answer("new", created_at_s=now))

    def create_again() -> None:
        with database.write() as session:
            queued(session, JOB)
            repository.add_idempotent(session, answer("new"))

    with pytest.raises(IntegrityError):
        create_again()
    with database.write() as session:
        assert service.count_by_state(session) == {}  # the second study went with its key
        repository.forget_idempotent(session, 100, older_than_s=50)
        found = repository.find_idempotent(session, "me", "new")
        assert found is not None
        assert found.body == {"id": "new"}
        assert repository.find_idempotent(session, "me", "old") is None
        assert repository.find_idempotent(session, "you", "new") is None


def _twice(table: type[Any], row: dict[str, Any], **other: Any) -> Callable[[Session, str], None]:
    def add(session: Session, study_id: str) -> None:
        owned = {"study_id": study_id} if "study_id" in table.__table__.c and table is not IdempotencyRecord else {}
        session.execute(insert(table), [{**owned, **row}])
        session.execute(insert(table), [{**owned, **row, **other}])

    return add


PLAN = {"rank": 1, "plan_id": "p", "step_time_s": 1.0, "peak_memory_bytes": 1.0, "document": {}}
REJECTION = {"position": 1, "rule": "r", "count": 1, "example": "e"}
KEY = {"id": "k", "name": "n", "prefix": "p", "secret_sha256": "s", "scopes": [], "created_at_s": 0.0}


@pytest.mark.parametrize(
    "add",
    [
        _twice(Trial, trial(0)),
        _twice(Plan, PLAN, plan_id="q"),
        _twice(Plan, PLAN, rank=2),
        _twice(Rejection, REJECTION, rule="s"),
        _twice(Rejection, REJECTION, position=2),
        _twice(ApiKey, KEY, id="l"),
        lambda session, study_id: session.execute(insert(Trial), [{**trial(0, outcome="lucky"), "study_id": study_id}]),
        lambda session, study_id: session.execute(insert(Trial), [{**trial(0), "study_id": "none"}]),
    ],
    ids=["trial", "rank", "plan", "position", "rule", "key", "outcome", "owner"],
)
def test_the_database_itself_refuses_what_must_not_be(database: Database, add: Callable[[Session, str], None]) -> None:
    study_id = create(database)
    with pytest.raises(IntegrityError), database.write() as session:
        add(session, study_id)
    with database.read() as session:
        assert service.list_trials(session, study_id).items == ()


def test_numbers_that_json_does_not_know_are_refused(database: Database) -> None:
    create(database)
    lease = claim(database)
    with pytest.raises((StatementError, ValueError), match="not JSON compliant"), database.write() as session:
        queue.save(session, lease, {"best_step_time_s": float("nan")}, {}, [])


def test_a_number_is_never_given_again(database: Database) -> None:
    first = create(database)
    with database.write() as session:
        number = session.query(Study.number).where(Study.id == first).scalar()
        session.execute(delete(Study))
    second = create(database)
    with database.read() as session:
        assert session.query(Study.number).where(Study.id == second).scalar() > number


def test_a_failure_in_a_transaction_undoes_all_of_it(database: Database) -> None:
    def create_and_fail() -> None:
        with database.write() as session:
            queued(session, JOB)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        create_and_fail()
    with database.read() as session:
        assert service.count_by_state(session) == {}


def test_readers_see_one_state_of_the_database_and_do_not_wait_for_a_writer(database: Database) -> None:
    with database.write() as writing:
        queued(writing, JOB)
        with database.read() as reading:
            assert service.count_by_state(reading) == {}
    with database.read() as reading:
        assert service.count_by_state(reading) == {"queued": 1}
