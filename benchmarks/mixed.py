"""64 callers of four owners ask for everything at once, of a server with keys as ``meshplan serve --require-keys`` starts it.

A quarter of the callers ask for heavy work (checks, timelines, sweeps) without a pause, so that its queue is never empty. The
others ask for light work with pauses of a second: estimates of strategies that were never asked before, lists, studies, plans,
catalogues, metrics, reports, submits and bad requests. One line a kind of request, and the memory of all processes over time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from benchmarks.rest import JOB as LARGE
from benchmarks.throughput import SMALL, large_strategies, small_strategies

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = (sys.executable, "-m", "meshplan")
NUM_OWNERS = 4
ANSWER_S = 180.0
MOST_ESTIMATE_P99_S = 0.200  # targets
MOST_MEMORY_MIB = 500
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
}
SEARCH = {**JOB, "search": {"top": 5, "cp": 1, "recompute": ["none", "full"]}}
SWEEP = {**SEARCH, "sweep": {"devices": [8, 16, 32, 64]}}
CHECK = {**JOB, "budget": {"step_time_s": {"max": 100}}}
LIGHT = {"estimate": 50, "list": 16, "study": 13, "plans": 9, "models": 3, "metrics": 3, "bad": 2, "report": 2, "submit": 2}
HEAVY = {"check": 50, "timeline": 25, "sweep": 25}


class Question(NamedTuple):
    method: str
    path: str
    body: dict[str, Any] | None = None


class Server(NamedTuple):
    process: psutil.Process
    port: int
    keys: list[str]


@contextmanager
def server() -> Iterator[Server]:
    """A server with an empty data folder and a key for each owner."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MESHPLAN_DATA_DIR": folder}
        environment.pop("MESHPLAN_DATABASE_URL", None)
        process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", "--require-keys"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            port = int(next(found[1] for line in process.stdout if (found := re.search(r"http://\S*:(\d+)", line))))
            while not _is_ready(port):
                time.sleep(0.05)
            keys = []
            for number in range(NUM_OWNERS):
                command = [*PROGRAM, "keys", "create", f"owner-{number}"]
                said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
                keys += re.findall(r"mp_[\w-]+", said)[:1]
            yield Server(psutil.Process(process.pid), port, keys)
        finally:
            process.terminate()
            process.wait(timeout=60)


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx.TransportError:
        return False


def memory_mib(process: psutil.Process) -> float:
    """Memory of all processes; what they share is counted once."""
    total_kib = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            rows = Path(f"/proc/{one.pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:  # it has just ended
            continue
        total_kib += int(rows.partition("Pss:")[2].split()[0])
    return total_kib / 1024


def questions(study: str, plan: str, draw: random.Random) -> dict[str, Iterator[Question]]:
    """By kind, the questions of it."""
    own = f"/v1/studies/{study}"
    small = ({**SMALL, "strategy": one} for one in itertools.cycle(small_strategies()))
    large = ({**LARGE, "strategy": one} for one in itertools.cycle(large_strategies()))
    bodies = (next(large) if number % 3 == 0 else next(small) for number in itertools.count())
    checks = ({**CHECK, "strategy": {"tp": 8, "pp": draw.choice([1, 2])}} for _ in itertools.count())
    return {
        "estimate": (Question("POST", "/v1/estimates?explain=none", body) for body in bodies),
        "check": (Question("POST", "/v1/checks", body) for body in checks),
        **{
            kind: itertools.repeat(question)
            for kind, question in {
                "list": Question("GET", "/v1/studies?limit=50"),
                "study": Question("GET", own),
                "plans": Question("GET", f"{own}/plans"),
                "report": Question("GET", f"{own}/report"),
                "timeline": Question("GET", f"{own}/plans/{plan}/timeline"),
                "models": Question("GET", "/v1/models"),
                "metrics": Question("GET", "/metrics"),
                "bad": Question("POST", "/v1/estimates", {"a": 1}),
                "submit": Question("POST", "/v1/studies", SEARCH),
                "sweep": Question("POST", "/v1/sweeps", SWEEP),
            }.items()
        },
    }


@dataclass
class Answers:
    """Times and statuses by kind of request. Status 0: none came."""

    times_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def quantile_s(self, kind: str, part: float) -> float:
        times_s = sorted(self.times_s[kind])
        return times_s[min(len(times_s) - 1, int(part * len(times_s)))]


async def ask(client: httpx.AsyncClient, key: str, question: Question) -> int:
    content = None if question.body is None else json.dumps(question.body)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    try:
        return (await client.request(question.method, question.path, content=content, headers=headers)).status_code
    except httpx.TransportError:
        return 0


async def drive(at: Server, duration_s: float, num_clients: int, num_heavy: int, pause_s: float) -> Answers:
    found, base = Answers(), f"http://127.0.0.1:{at.port}"
    own = {"authorization": f"Bearer {at.keys[0]}"}
    async with httpx.AsyncClient(base_url=base, timeout=ANSWER_S) as first:
        made = await first.post("/v1/studies?visibility=public", json=SEARCH, headers={**own, "prefer": "wait=60"})
        study = made.raise_for_status().json()["id"]
        plan = (await first.get(f"/v1/studies/{study}/plans", headers=own)).json()["items"][0]["plan_id"]
    kinds = questions(study, plan, random.Random(0))
    ends_s = time.perf_counter() + duration_s

    async def client(number: int) -> None:
        draw = random.Random(number)
        shares, own_pause_s = (HEAVY, 0.0) if number < num_heavy else (LIGHT, pause_s)
        async with httpx.AsyncClient(base_url=base, timeout=ANSWER_S, limits=httpx.Limits(max_connections=1)) as asking:
            while True:
                await asyncio.sleep(draw.expovariate(1.0 / own_pause_s) if own_pause_s else 0.0)
                if time.perf_counter() > ends_s:
                    return
                kind = draw.choices(list(shares), list(shares.values()))[0]
                sent_s = time.perf_counter()
                status = await ask(asking, at.keys[number % NUM_OWNERS], next(kinds[kind]))
                found.times_s[kind].append(time.perf_counter() - sent_s)
                found.statuses[kind][status] += 1

    async def watch() -> None:
        while (left_s := ends_s - time.perf_counter()) > 0:
            print(f"{duration_s - left_s:6.0f} s: {memory_mib(at.process):5.0f} MiB, {at.process.num_fds()} files", flush=True)
            await asyncio.sleep(max(10.0, duration_s / 12))

    await asyncio.gather(watch(), *(client(number) for number in range(num_clients)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--heavy", type=int, default=16, help="of them, those that ask for heavy work")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two questions of the others, on average")
    given = parser.parse_args()
    with server() as at:
        found = asyncio.run(drive(at, given.seconds, given.clients, given.heavy, given.pause))
        memory = memory_mib(at.process)
    for kind in (*LIGHT, *HEAVY):
        if times_s := found.times_s[kind]:
            p50, p99 = (found.quantile_s(kind, part) * 1e3 for part in (0.5, 0.99))
            most = max(times_s) * 1e3
            answers = dict(sorted(found.statuses[kind].items()))
            print(f"{kind:<10}{len(times_s):>7}  p50 {p50:8.0f} ms  p99 {p99:8.0f} ms  most {most:8.0f} ms  {answers}")
    slow = found.quantile_s("estimate", 0.99) > MOST_ESTIMATE_P99_S
    refused = sum(found.statuses[kind][503] + found.statuses[kind][0] for kind in LIGHT)
    above = f" ABOVE {MOST_MEMORY_MIB}" if memory > MOST_MEMORY_MIB else ""
    print(f"light requests refused: {refused}; p99 of estimates{' ABOVE' if slow else ' below'} {MOST_ESTIMATE_P99_S:g} s")
    print(f"memory at the end: {memory:.0f} MiB{above}")


if __name__ == "__main__":
    main()
