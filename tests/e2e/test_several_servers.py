"""Two servers and a host of workers on one PostgreSQL: what each promises holds for all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.http import keys
from app.storage.session import Database
from app.storage.upgrade import upgrade
from meshplan import Client
from tests.databases import Postgresql, postgresql
from tests.servers import ROOT, Server, running_server
from tests.study_jobs import SMALL

__all__ = ["postgresql"]
WAIT_S = 240.0
KILLED_AFTER = 3  # studies that have finished


@pytest.fixture
def url(postgresql: Postgresql) -> str:
    url = postgresql.empty()
    upgrade(url)
    return url


@pytest.fixture
def servers(url: str, tmp_path: Path) -> Iterator[list[Server]]:
    """Two, each with a worker of its own, that ask for keys, as behind a balancer."""
    settings = {"MESHPLAN_DATABASE_URL": url, "MESHPLAN_LEASE_S": "1"}
    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        yield [
            stack.enter_context(running_server(folder, "--require-keys", "--workers", "1", settings=settings))
            for folder in folders
        ]


@pytest.fixture
def workers(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host that runs studies only."""
    environment = {**os.environ, "MESHPLAN_DATABASE_URL": url, "MESHPLAN_LEASE_S": "1"}
    command = [sys.executable, "-m", "meshplan", "worker", "--workers", "1"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    yield process
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)


def key_of(url: str, name: str, scopes: tuple[keys.Scope, ...] = keys.USUAL_SCOPES) -> str:
    with Database(url) as database, database.write() as session:
        return keys.create_key(session, name, scopes, None)[1]


def job(seed: int) -> dict[str, Any]:
    return {**SMALL, "search": {**SMALL["search"], "sampler": "random", "max_trials": 64, "seed": seed}}


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_studies_of_two_servers_are_run_once_each_though_one_server_dies(url: str, servers: list[Server]) -> None:
    ada, bob = key_of(url, "ada"), key_of(url, "bob")
    clients = [Client(server.url, api_key=ada) for server in servers]
    ids = [clients[number % 2].submit(job(number % 4)).id for number in range(8)]
    other = Client(servers[1].url, api_key=bob)
    theirs = other.submit(job(0)).id
    for study in ids[:KILLED_AFTER]:  # each server follows what the other was given
        assert clients[1].wait(study, timeout_s=WAIT_S).state == "completed"
    servers[0].kill()  # with its worker
    finished = [clients[1].wait(study, timeout_s=WAIT_S) for study in ids]
    assert [study.state for study in finished] == ["completed"] * len(ids)
    assert other.wait(theirs, timeout_s=WAIT_S).state == "completed"
    answers: dict[int, set[str]] = {}
    for number, study in enumerate(ids):
        trials = clients[1].trials(study)
        assert [trial["number"] for trial in trials] == list(range(64))
        told = repr([(plan.rank, plan.plan_id, plan.estimate) for plan in clients[1].plans(study)])
        answers.setdefault(number % 4, set()).add(told)
    assert [len(told) for told in answers.values()] == [1] * 4  # equal jobs, equal answers, whoever ran them
    assert {item["id"] for item in other.studies()} == {theirs}
    servers[0].start()
    assert {item["id"] for item in clients[0].studies()} == set(ids)
    for client in (*clients, other):
        client.close()


@pytest.mark.slow
def test_a_request_that_reaches_both_servers_is_carried_out_once(url: str, servers: list[Server]) -> None:
    headers = {"Authorization": f"Bearer {key_of(url, 'ada')}"}
    answers: list[httpx.Response] = []

    def ask(number: int) -> None:
        same = {**headers, "Idempotency-Key": f"k{number // 4}"}
        answers.append(httpx.post(f"{servers[number % 2].url}/v1/studies", json=job(number // 4), headers=same, timeout=60))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(Counter(answer.status_code for answer in answers)) <= {202, 409}  # 409: the first of them still ran
    found = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert len(found) == 4
    listed = httpx.get(f"{servers[0].url}/v1/studies", headers=headers, timeout=60).json()["items"]
    assert {item["id"] for item in listed} == found


@pytest.mark.slow
def test_what_one_server_is_told_of_keys_holds_on_the_other(url: str, servers: list[Server]) -> None:
    secret = key_of(url, "ada")
    headers = {"Authorization": f"Bearer {secret}"}

    def statuses() -> list[int]:
        return [httpx.get(f"{server.url}/v1/studies", headers=headers, timeout=60).status_code for server in servers]

    assert statuses() == [200, 200]
    with Database(url) as database, database.write() as session:
        keys.revoke_key(session, "ada")
    assert statuses() == [401, 401]
