"""The lease queue: who may take a study, and who may no longer write to it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import Study
from app.studies import queue, repository, service
from app.studies.errors import StudyConflict
from app.studies.queue import Lease, LeaseLostError
from app.studies.schemas import StudyDocument
from app.studies.work import Outcome
from tests.study_jobs import queued, small_job

JOB = small_job()
TRIAL = {
    "number": 0,
    "source": "sampled",
    "outcome": "fits",
    "rule": None,
    "step_time_s": 1.0,
    "peak_memory_bytes": 1.0,
    "value": 1.0,
    "best_value": 1.0,
    "duplicate_of": None,
    "strategy": {},
    "sampler_state": {},
}


def create(database: Database, count: int = 1) -> list[str]:
    with database.write() as session:
        return [queued(session, JOB).id for _ in range(count)]


def claim(database: Database, owner: str = "one", lease_s: float = 10.0) -> Lease | None:
    with database.write() as session:
        return queue.claim(session, owner, lease_s)


def taken(database: Database, owner: str = "one", lease_s: float = 10.0) -> Lease:
    lease = claim(database, owner, lease_s)
    assert lease is not None
    return lease


def view(database: Database, study_id: str) -> StudyDocument:
    with database.read() as session:
        return service.get_study(session, study_id)


def expire(database: Database) -> None:
    """As if every worker had been silent for long."""
    shift(database, -3600.0)


def shift(database: Database, expires_in_s: float) -> None:
    with database.write() as session:
        session.execute(update(Study).values(lease_expires_at_s=now_s(session) + expires_in_s))


def test_studies_are_taken_in_the_order_in_which_they_came_each_once(database: Database) -> None:
    ids = create(database, 3)
    assert [taken(database).study_id for _ in ids] == ids
    assert claim(database) is None


def test_a_claim_is_told_in_the_row(database: Database) -> None:
    (study_id,) = create(database)
    lease = taken(database, "host:7", lease_s=5.0)
    with database.read() as session:
        study = repository.find_study(session, study_id)
        assert study is not None
        assert study.lease_expires_at_s is not None
        assert (study.state, study.lease_owner, study.lease_token, study.attempts) == ("running", "host:7", lease.token, 1)
        assert study.started_at_s == study.heartbeat_at_s == pytest.approx(study.lease_expires_at_s - 5.0)


def test_a_study_whose_worker_is_silent_is_taken_again_and_a_living_one_is_not(database: Database) -> None:
    (study_id,) = create(database)
    first = taken(database, "one")
    assert claim(database, "two") is None
    expire(database)
    with database.write() as session:
        queue.renew(session, first, 10.0)  # late, but nobody has taken it meanwhile
    assert claim(database, "two") is None
    expire(database)
    second = taken(database, "two")
    assert second.study_id == study_id
    assert second.token > first.token
    assert view(database, study_id).attempts == 2


WRITES: dict[str, Callable[[Session, Lease], Any]] = {
    "renew": lambda session, lease: queue.renew(session, lease, 10.0),
    "look": queue.is_cancel_requested,
    "save": lambda session, lease: queue.save(session, lease, {"done_fraction": 0.9}, {"step": 9}, [TRIAL]),
    "start over": queue.start_over,
    "release": queue.release,
    "finish": lambda session, lease: queue.finish(session, lease, "1.0", Outcome("completed", {"counts": {}})),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("fate", ["taken", "finished", "deleted", "released"])
def test_a_worker_without_its_lease_writes_nothing(database: Database, fate: str, write: Callable[..., Any]) -> None:
    (study_id,) = create(database)
    old = taken(database, "one")
    with database.write() as session:
        queue.save(session, old, {"done_fraction": 0.5}, {"step": 5}, [])
    expire(database)
    if fate != "released":
        new = taken(database, "two")
    with database.write() as session:
        if fate == "finished":
            queue.finish(session, new, "1.0", Outcome("failed", error="It broke."))
        elif fate == "deleted":
            queue.finish(session, new, "1.0", Outcome("failed", error="It broke."))
            service.delete_study(session, study_id)
        elif fate == "released":
            queue.release(session, old)
    before = None if fate == "deleted" else view(database, study_id)
    with pytest.raises(LeaseLostError), database.write() as session:
        write(session, old)
    if before is not None:
        assert view(database, study_id) == before
        with database.read() as session:
            assert service.list_trials(session, study_id).items == ()


def test_a_released_study_is_next_in_the_queue_and_no_attempt_is_held_against_it(database: Database) -> None:
    first, second = create(database, 2)
    for _ in range(2 * queue.MAX_ATTEMPTS_WITHOUT_PROGRESS):
        lease = taken(database)
        assert lease.study_id == first
        with database.write() as session:
            queue.release(session, lease)
    assert view(database, first).state == "queued"
    assert view(database, second).attempts == 0


def test_a_study_that_kills_its_workers_fails_and_the_next_is_taken(database: Database) -> None:
    deadly, harmless = create(database, 2)
    for _ in range(queue.MAX_ATTEMPTS_WITHOUT_PROGRESS):
        assert taken(database).study_id == deadly
        expire(database)
    assert taken(database).study_id == harmless
    study = view(database, deadly)
    assert study.state == "failed"
    assert study.error == f"{queue.MAX_ATTEMPTS_WITHOUT_PROGRESS} workers in a row died on it without getting further."
    with database.write() as session:
        service.resume_study(session, deadly)
    assert taken(database).study_id == deadly


def test_a_study_whose_workers_die_waits_longer_after_each_death(database: Database) -> None:
    (study_id,) = create(database)
    taken(database)
    shift(database, -0.001)
    taken(database)  # one death may be chance
    waits_s = []
    for deaths in range(2, queue.MAX_ATTEMPTS_WITHOUT_PROGRESS):
        waits_s.append(queue.BACK_OFF_S * deaths * (deaths - 1))
        shift(database, 0.5 - waits_s[-1])
        assert claim(database) is None
        shift(database, -0.001 - waits_s[-1])
        taken(database)
    assert waits_s == sorted(waits_s)
    assert sum(waits_s) > 60
    assert view(database, study_id).state == "running"


def test_a_lease_that_lies_ahead_of_the_clock_holds_nobody(database: Database) -> None:
    """The clock was set back by an hour, and the worker is dead."""
    first, second = create(database, 2)
    old = [taken(database), taken(database)]
    shift(database, 12.0)  # as a lease of 10 s looks that was taken since, or by a clock two seconds ahead
    assert claim(database) is None
    with pytest.raises(StudyConflict), database.write() as session:
        service.delete_study(session, first)
    shift(database, 3600.0)
    with database.write() as session:
        service.delete_study(session, first)
        assert service.cancel_study(session, second).cancel_requested
    new = taken(database, "two")
    assert new.study_id == second
    for lease in old:
        with pytest.raises(LeaseLostError), database.write() as session:
            queue.renew(session, lease, 10.0)
    with database.write() as session:
        queue.finish(session, new, "1.0", Outcome("cancelled"))
        assert service.resume_study(session, second).state == "queued"


def test_progress_forgives_the_deaths_before_it(database: Database) -> None:
    (study_id,) = create(database)
    for step in range(3 * queue.MAX_ATTEMPTS_WITHOUT_PROGRESS):
        lease = taken(database)
        if step % 5 == 4:
            with database.write() as session:
                queue.save(session, lease, {}, {"step": step}, [])
        expire(database)
    assert view(database, study_id).state == "running"


def test_workers_that_ask_at_once_never_get_the_same_study(database: Database) -> None:
    num_studies, num_workers = 40, 4
    create(database, num_studies)
    claimed: list[str] = []

    def work(owner: str) -> None:
        while (lease := claim(database, owner)) is not None:
            claimed.append(lease.study_id)

    threads = [threading.Thread(target=work, args=(f"worker {index}",)) for index in range(num_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == num_studies
    assert set(Counter(claimed).values()) == {1}


def test_starting_over_forgets_the_checkpoint_and_its_trials(database: Database) -> None:
    (study_id,) = create(database)
    lease = taken(database)
    with database.write() as session:
        queue.save(session, lease, {}, {"step": 1}, [TRIAL])
        queue.start_over(session, lease)
        queue.save(session, lease, {}, {"step": 0}, [TRIAL])
    with database.read() as session:
        assert len(service.list_trials(session, study_id).items) == 1
