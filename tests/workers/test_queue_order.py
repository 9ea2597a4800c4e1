"""Whose turn it is: fairness between owners, whatever each of them does."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.session import Database
from app.studies import queue, service
from app.studies.queue import Lease
from tests.study_jobs import queued, small_job

JOB = small_job()


def create(database: Database, owner: str | None, count: int = 1) -> list[str]:
    with database.write() as session:
        return [queued(session, JOB, owner=owner).id for _ in range(count)]


def claimed(database: Database, count: int) -> list[str]:
    leases = []
    for _ in range(count):
        with database.write() as session:
            leases.append(queue.claim(session, "test", 10.0))
    return [lease.study_id for lease in leases if lease is not None]


def test_many_studies_of_one_owner_do_not_block_anothers(database: Database) -> None:
    many = create(database, "ada", 50)
    assert claimed(database, 20) == many[:20]
    few = create(database, "bob", 2)
    assert claimed(database, 4) == [many[20], few[0], many[21], few[1]]
    assert claimed(database, 60) == many[22:]


def test_whoever_asks_one_by_one_gets_every_other_turn(database: Database) -> None:
    many = create(database, "ada", 6)
    served = []
    for _ in range(3):
        (one,) = create(database, "bob")
        pair = claimed(database, 2)
        served += pair
        assert one in pair
    assert [study for study in served if study in many] == many[:3]


def test_studies_that_were_put_back_go_on_first_and_count_no_turn(database: Database) -> None:
    ada, bob = create(database, "ada", 3), create(database, "bob", 3)
    with database.write() as session:
        lease = queue.claim(session, "test", 10.0)
        assert lease is not None
        queue.release(session, lease)
    cyd = create(database, "cyd", 3)
    assert claimed(database, 9) == [ada[0], bob[0], cyd[0], ada[1], bob[1], cyd[1], ada[2], bob[2], cyd[2]]


def test_a_resumed_study_waits_behind_its_owners_others(database: Database) -> None:
    first, second = create(database, "ada", 2)
    with database.write() as session:
        service.cancel_study(session, first)
    third = create(database, "ada")[0]
    other = create(database, "bob")[0]
    with database.write() as session:
        service.resume_study(session, first)
    assert set(claimed(database, 2)) == {first, other}  # an owner's own go by age
    assert claimed(database, 2) == [second, third]


@pytest.mark.parametrize("priorities", [(0, 0, 5, 0), (-3, 2, 2, 9)])
def test_priorities_order_an_owners_own_studies_and_nobody_elses(database: Database, priorities: tuple[int, ...]) -> None:
    with database.write() as session:
        own = [queued(session, JOB, owner="ada", priority=priority).id for priority in priorities]
    others = create(database, "bob", 4)
    expected = [own[index] for index in sorted(range(4), key=lambda index: (-priorities[index], index))]
    order = claimed(database, 8)
    assert [study for study in order if study in own] == expected
    assert order[1::2] == others


@given(waiting=st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2)), min_size=1, max_size=25), taken=st.integers(0, 25))
@pytest.mark.slow
def test_no_owner_gets_two_turns_while_another_who_waits_gets_none(
    tmp_path_factory: pytest.TempPathFactory, waiting: list[tuple[str, int]], taken: int
) -> None:
    from app.storage.upgrade import upgrade

    url = f"sqlite:///{tmp_path_factory.mktemp('turns') / 'x.db'}"
    upgrade(url)
    owners: dict[str, str] = {}
    with Database(url) as database:
        with database.write() as session:
            for owner, priority in waiting:
                owners[queued(session, JOB, owner=owner, priority=priority).id] = owner
        left, served = Counter(owners.values()), Counter[str]()
        for study in claimed(database, min(taken, len(waiting))):
            served[owners[study]] += 1
            left[owners[study]] -= 1
            for other, number in left.items():
                if number:  # it waits still
                    assert served[owners[study]] <= served[other] + 1
        newcomer = create(database, "d")[0]
        before = claimed(database, len(waiting) + 1).index(newcomer) if newcomer else 0
    assert before <= sum(1 for number in left.values() if number)


def test_workers_that_ask_at_once_take_each_study_once_whoever_owns_it(database: Database) -> None:
    ids = [study for owner in ("ada", "bob", None) for study in create(database, owner, 12)]
    found: list[str] = []

    def work() -> None:
        while True:
            lease: Lease | None
            with database.write() as session:
                lease = queue.claim(session, "test", 60.0)
            if lease is None:
                return
            found.append(lease.study_id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(ids)


def places(database: Database, study_ids: list[str]) -> list[int | None]:
    with database.read() as session:
        return [service.queue_place(session, study_id).num_ahead for study_id in study_ids]


@pytest.mark.parametrize("seed", range(6))
def test_a_place_in_the_queue_is_the_number_of_studies_that_are_taken_before(database: Database, seed: int) -> None:
    drawn = random.Random(seed)
    with database.write() as session:
        own = [
            queued(session, JOB, owner=drawn.choice(["ada", "bob", "cyd"]), priority=drawn.randint(-2, 2)).id
            for _ in range(drawn.randint(1, 9))
        ]
    leases: list[Lease | None] = []
    for _ in range(drawn.randint(0, len(own))):
        with database.write() as session:
            leases.append(queue.claim(session, "test", 10.0))
    for lease in leases:
        with database.write() as session:
            assert lease is not None
            queue.release(session, lease)
    told = places(database, own)
    order = claimed(database, len(own))
    assert told == [order.index(study_id) for study_id in own]
    assert places(database, own) == [None] * len(own)
