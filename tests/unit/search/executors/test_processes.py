"""Processes that calls are made in, and what becomes of those whose process dies."""

import operator
import os
import signal
import time
from collections.abc import Iterator

import pytest

from search.executors.executor import SERIAL, Piece, WorkerLostError
from search.executors.processes import Processes

SOON_S = 120.0  # on a machine with much else to do


@pytest.fixture
def pool() -> Iterator[Processes]:
    processes = Processes(3)
    yield processes
    processes.close()


def until_ready(pool: Processes, room: int = 4) -> None:
    ends_s = time.monotonic() + SOON_S
    while pool.room < room:
        assert time.monotonic() < ends_s, "the processes did not start"
        time.sleep(0.05)


def test_calls_are_made_elsewhere_and_their_errors_come_back(pool: Processes) -> None:
    until_ready(pool)
    elsewhere = {pool.submit(os.getpid).result(SOON_S) for _ in range(4)}
    assert elsewhere <= set(pool.pids)
    assert os.getpid() not in elsewhere
    with pytest.raises(ZeroDivisionError):
        pool.submit(operator.truediv, 1, 0).result(SOON_S)
    with pytest.raises(Exception, match="pickle"):
        pool.submit(operator.add, lambda: 1, 2).result(SOON_S)
    assert pool.submit(operator.add, 1, 2).result(SOON_S) == 3


def test_memory_that_a_process_takes_is_seen_until_it_ends(pool: Processes) -> None:
    until_ready(pool)
    before = pool.grown_bytes
    assert pool.submit(len, bytes(64 << 20)).result(SOON_S) == 64 << 20  # it lets them go again, or keeps them for the next call
    assert pool.submit(exec, "import builtins; builtins.kept = b'1' * (64 << 20)").result(SOON_S) is None
    assert pool.grown_bytes - before > 60 << 20
    pool.close()
    assert pool.grown_bytes == 0


def test_the_call_of_a_killed_process_is_made_again(pool: Processes) -> None:
    until_ready(pool)
    before = set(pool.pids)
    answers = [pool.submit(time.sleep, 1.0) for _ in range(2)]
    time.sleep(0.2)
    os.kill(min(before), signal.SIGKILL)
    assert [answer.result(SOON_S) for answer in answers] == [None, None]
    until_ready(pool)
    assert min(before) not in pool.pids
    assert len(pool.pids) == 2


def test_a_call_that_no_process_survives_is_worked_on_here(pool: Processes) -> None:
    until_ready(pool)
    with pytest.raises(WorkerLostError):
        pool.submit(os._exit, 1).result(SOON_S)
    assert pool.submit(operator.add, 1, 2).result(SOON_S) == 3
    piece = Piece(operator.add, 2, 3)
    piece.give(SERIAL)
    assert piece.result() == 5


def test_one_process_is_this_one_and_none_is_left_at_the_end() -> None:
    alone = Processes(1)
    assert alone.room == 0
    assert alone.pids == []
    alone.close()
    pool = Processes(2)
    until_ready(pool, 2)
    (pid,) = pool.pids
    waiting = [pool.submit(time.sleep, SOON_S) for _ in range(3)]
    pool.close()
    assert pool.pids == []
    assert all(isinstance(each.exception(), WorkerLostError) for each in waiting)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_processes_wait_until_they_are_worth_it() -> None:
    is_worth_it = False
    pool = Processes(2, begin=lambda: is_worth_it)
    assert pool.room == 0
    assert pool.pids == []
    is_worth_it = True
    until_ready(pool, 2)
    pool.close()
