"""Processes that price for requests: killed, overfull, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from app.answers.parts import PARTS
from app.storage.session import Database
from app.workers import pool as pools
from app.workers.calls import Answer, Call, CallOptions, EstimateCall
from app.workers.pool import Pool, PoolFullError, ProcessDiedError
from documents.errors import InputError
from frameworks.target import TargetError

ROOT = Path(__file__).resolve().parents[2]
URL = "sqlite:///never-opened.db"
WAIT_S = 120.0
JOB: dict[str, Any] = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}


def pid(database: Database) -> str:
    return str(os.getpid())


def wait_for(path: str, database: Database) -> str:
    """Says that it has begun, and returns once it may."""
    Path(f"{path}.begun").touch()
    while not Path(path).exists():
        time.sleep(0.02)
    return "done"


def die(database: Database) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def refuse(database: Database) -> str:
    raise TargetError("field: no; give another.")  # of a package below: an InputError as any other


def fail(database: Database) -> str:
    raise ZeroDivisionError("two things at once")


@contextmanager
def pool(**given: Any) -> Iterator[Pool]:
    made = Pool("test", CallOptions(URL), **{"num_processes": 1, "max_waiting": 10, **given})
    try:
        yield made
    finally:
        made.stop()


def answer(of: Pool, function: Callable[..., Any], **arguments: Any) -> Answer:
    return of.submit(Call(function, arguments)).result(WAIT_S)


def test_what_a_call_returns_or_raises_comes_back() -> None:
    with pool() as made:
        assert answer(made, pid) == Answer(str(made.pids[0]).encode())
        refused = answer(made, refuse)
        assert isinstance(refused.error, InputError)
        assert str(refused.error) == "field: no; give another."
        assert "two things at once" in (answer(made, fail).fault or "")
        assert made.pids == [int(answer(made, pid).value or b"")]  # none of that cost the process


def test_a_call_whose_process_is_killed_is_answered_by_the_next(tmp_path: Path) -> None:
    with pool() as made:
        running = made.submit(Call(wait_for, {"path": str(tmp_path / "go")}))
        while not (tmp_path / "go.begun").exists():
            time.sleep(0.02)
        os.kill(made.pids[0], signal.SIGKILL)
        (tmp_path / "go").touch()
        assert running.result(WAIT_S) == Answer(b"done")


def test_a_call_that_kills_its_process_is_given_up_and_its_neighbours_are_answered() -> None:
    with pool(at_once=8) as made:
        deadly = made.submit(Call(die, {}))
        others = [made.submit(Call(pid, {})) for _ in range(3)]
        with pytest.raises(ProcessDiedError):
            deadly.result(WAIT_S)
        assert all(other.result(WAIT_S).value for other in others)


def test_beyond_what_may_wait_calls_are_refused(tmp_path: Path) -> None:
    with pool(max_waiting=2) as made:
        running = made.submit(Call(wait_for, {"path": str(tmp_path / "go")}))
        while not (tmp_path / "go.begun").exists():
            time.sleep(0.02)
        waiting = [made.submit(Call(pid, {})) for _ in range(2)]
        with pytest.raises(PoolFullError):
            made.submit(Call(pid, {}))
        (tmp_path / "go").touch()
        assert running.result(WAIT_S).value == b"done"
        assert all(one.result(WAIT_S).value for one in waiting)


def begun(of: Pool, path: Path, owner: str | None = None) -> Future[Answer]:
    """A call that runs until its file exists."""
    running = of.submit(Call(wait_for, {"path": str(path)}), owner)
    while not Path(f"{path}.begun").exists():
        time.sleep(0.02)
    return running


def note(path: str, name: str, database: Database) -> str:
    with Path(path).open("a", encoding="utf-8") as file:
        print(name, file=file)
    return name


def test_owners_take_turns_and_one_alone_leaves_half_of_the_queue_to_others(tmp_path: Path) -> None:
    with pool(max_waiting=8) as made:
        begun(made, tmp_path / "go", "ada")
        names = [f"ada {number}" for number in range(4)]
        waiting = [made.submit(Call(note, {"path": str(tmp_path / "order"), "name": name}), "ada") for name in names]
        with pytest.raises(PoolFullError):
            made.submit(Call(pid, {}), "ada")
        waiting += [made.submit(Call(note, {"path": str(tmp_path / "order"), "name": f"bob {n}"}), "bob") for n in range(2)]
        (tmp_path / "go").touch()
        assert all(one.result(WAIT_S).value for one in waiting)
        assert (tmp_path / "order").read_text().split("\n")[:-1] == ["ada 0", "bob 0", "ada 1", "bob 1", "ada 2", "ada 3"]


def test_with_two_processes_the_second_is_for_the_owner_who_has_none(tmp_path: Path) -> None:
    with pool(num_processes=2) as made:
        ends = [begun(made, tmp_path / str(number), "ada") for number in range(2)]
        later = made.submit(Call(wait_for, {"path": str(tmp_path / "later")}), "ada")
        other = made.submit(Call(pid, {}), "bob")
        (tmp_path / "0").touch()
        assert other.result(WAIT_S).value
        for name in ("1", "later"):
            (tmp_path / name).touch()
        assert {one.result(WAIT_S).value for one in (*ends, later)} == {b"done"}


def test_calls_that_nobody_waits_for_are_dropped_or_ended_with_their_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "WORTH_ENDING_S", 0.1)
    with pool(max_waiting=1) as made:
        running = begun(made, tmp_path / "never")
        process = made.pids[0]
        waiting = made.submit(Call(wait_for, {"path": str(tmp_path / "neither")}))
        with pytest.raises(PoolFullError):
            made.submit(Call(pid, {}))
        made.abandon(waiting)
        next_one = made.submit(Call(pid, {}))  # the place is free
        made.abandon(running)
        assert next_one.result(WAIT_S).value != str(process).encode()
        assert not psutil.pid_exists(process)
        assert not (tmp_path / "neither.begun").exists()
        assert made.num_restarts == 0


def test_a_short_call_that_nobody_waits_for_costs_no_process(tmp_path: Path) -> None:
    with pool() as made:
        running = begun(made, tmp_path / "go")
        made.abandon(running)
        (tmp_path / "go").touch()
        assert answer(made, pid).value == str(made.pids[0]).encode()
        made.abandon(running)  # it ended meanwhile


def test_nothing_is_left_of_a_pool_that_ended(tmp_path: Path) -> None:
    with pool(num_processes=2) as made:
        for number in range(2):
            made.submit(Call(wait_for, {"path": str(tmp_path / str(number))}))
        while len(list(tmp_path.glob("*.begun"))) < 2:
            time.sleep(0.02)
        processes = [psutil.Process(number) for number in made.pids]
    assert len(processes) == 2
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_it_ends_while_a_process_is_being_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, killed, of_process = Event(), Event(), pools.forking().Process
    start = of_process.start

    def start_late(process: Any) -> None:
        begun.set()
        killed.wait(WAIT_S)
        start(process)

    kill = pools._Slot.kill
    monkeypatch.setattr(of_process, "start", start_late)
    monkeypatch.setattr(pools._Slot, "kill", lambda slot: (kill(slot), killed.set()))
    monkeypatch.setattr(pools, "GRACE_S", 0.1)
    with pool() as made:
        never = made.submit(Call(wait_for, {"path": str(tmp_path / "never")}))
        assert begun.wait(WAIT_S)
    assert killed.is_set()  # before there was a process
    with pytest.raises(ProcessDiedError):
        never.result(0)


START = """
import sys, time
from app.workers import pool as pools
from app.workers.calls import Call, CallOptions
from app.workers.pool import Pool
from tests.workers.test_pool import pid
if __name__ == "__main__":
    pool = Pool("test", CallOptions("sqlite:///never-opened.db"), num_processes=1, max_waiting=1)
    print(pool.submit(Call(pid, {})).result().value.decode(), flush=True)
    time.sleep(120)
"""


def test_its_processes_die_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(START, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([child], timeout=10)
    assert alive == []


def test_estimates_that_come_together_are_answered_one_by_one() -> None:
    requests: list[dict[str, Any]] = [
        {**JOB, "strategy": {"tp": 8}},
        {**JOB, "strategy": {"tp": 3}},
        {"model": "no-such-model", "cluster": JOB["cluster"], "strategy": {"tp": 8}},
        {**JOB, "strategy": {"tp": 4}},
    ]
    with pool(at_once=8) as made:
        together = [made.submit(EstimateCall(request, frozenset(PARTS), advised=True)) for request in requests]
        found = [future.result(WAIT_S) for future in together]
        assert [one.error is None for one in found] == [True, False, False, True]
        for request, one in zip(requests, found, strict=True):
            alone = made.submit(EstimateCall(request, frozenset(PARTS), advised=True)).result(WAIT_S)
            assert (alone.value, str(alone.error)) == (one.value, str(one.error))
