"""Distinct estimates a second over REST: clients without a pause, then at half that rate, for a small model and one of 718B.

A question is another strategy of one job, as from a planning tool, never asked before; another job; or, where stated, the same
body again, which the server answers from memory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil

from benchmarks.rest import JOB as LARGE
from benchmarks.rest import STRATEGY
from scripts.dashboard.server import server

LEAST_A_SECOND = {"small": 200, "large": 100}  # target for distinct strategies of one job, 8 clients, two cores, none explained
MOST_P99_S = 0.100  # at that rate
SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
    "training": {"seq_length": 4096, "global_batch_size": 512, "precision": "bf16"},
}


def small_strategies() -> Iterator[dict[str, Any]]:
    layers = [f"block:{count}" for count in range(1, 9)]
    axes: dict[str, list[Any]] = {
        "zero_stage": [0, 1],
        "recompute": ["none", "full", "core_attn", *layers],
        "micro_batch_size": [1, 2, 4, 8],
        "tp": [1, 2, 4, 8],
        "pp": [2, 4, 1],
        "optimizer_shard_size": [None, 2, 4],
        "sequence_parallel": [True, False],
    }
    for row in itertools.product(*axes.values()):
        found = dict(zip(axes, row, strict=True))
        if found["tp"] > 1 or not found["sequence_parallel"]:
            yield found


def large_strategies() -> Iterator[dict[str, Any]]:
    layers = ["layernorm", "mlp_act", "layernorm+mlp_act", "moe", "mlp", "core_attn", "block:1", "block:2"]
    axes: dict[str, list[Any]] = {
        "zero_stage": [1, 0],
        "recompute": ["none", "full", *layers],
        "micro_batch_size": [1, 2, 4, 8],
        "tp": [8, 4, 2],
        "vpp": [1, 2],
        "pp": [16, 8],
        "ep": [8, 16, 32, 64],
        "moe_dispatcher": ["allgather", "alltoall"],
    }
    for row in itertools.product(*axes.values()):
        yield dict(zip(axes, row, strict=True))


def bodies(model: str, kind: str) -> Iterator[dict[str, Any]]:
    job, strategy, others = (SMALL, {"tp": 8}, small_strategies()) if model == "small" else (LARGE, STRATEGY, large_strategies())
    if kind == "same":
        yield from itertools.repeat({**job, "strategy": strategy})
    elif kind == "distinct":
        yield from ({**job, "strategy": other} for other in others)
    else:
        size = job["training"]["global_batch_size"]
        per_step = 1536 if model == "large" else 64
        for number in itertools.count():
            training = {**job["training"], "global_batch_size": size + per_step * number}
            yield {**job, "training": training, "strategy": strategy}


@dataclass
class Load:
    """Measurements of the clients."""

    times_s: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wall_s: float = 0.0
    server_cpu_s: float = 0.0

    pricing_cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.times_s) / self.wall_s

    def quantile_s(self, part: float) -> float:
        return sorted(self.times_s)[min(len(self.times_s) - 1, int(part * len(self.times_s)))]

    def report(self) -> str:
        http, pricing = (cpu_s / len(self.times_s) * 1e3 for cpu_s in (self.server_cpu_s, self.pricing_cpu_s))
        return (
            f"{self.rate:7.0f} a second, p50 {self.quantile_s(0.5) * 1e3:6.1f} ms, p99 {self.quantile_s(0.99) * 1e3:6.1f} ms, "
            f"CPU each: server {http:5.2f} ms, pricing {pricing:5.2f} ms, answers {self.statuses}"
        )


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, explain: str, body: bytes) -> int:
    lines = (
        f"POST /v1/estimates?explain={explain} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    head = "\r\n".join(lines) + "\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    await reader.readexactly(length)
    return int(answer[9:12])


async def drive(
    port: int, questions: Iterator[dict[str, Any]], duration_s: float, rate: float, num_clients: int, explain: str
) -> Load:
    """``rate``: questions a second of all clients together; infinite: each asks again at once."""
    load, began_s = Load(), time.perf_counter()
    count = itertools.count()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            due_s = began_s + next(count) / rate
            if due_s - began_s > duration_s or time.perf_counter() - began_s > duration_s:
                break
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            question = next(questions, None)
            if question is None:
                break
            body = json.dumps(question).encode()
            sent_s = time.perf_counter() if rate == math.inf else max(due_s, began_s)
            status = await ask(reader, writer, explain, body)
            load.times_s.append(time.perf_counter() - sent_s)
            load.statuses[status] = load.statuses.get(status, 0) + 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(num_clients)))
    load.wall_s = time.perf_counter() - began_s
    return load


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(time.user + time.system for time in (one.cpu_times() for one in processes))


def missed(model: str, load: Load) -> str:
    """Targets that the load of distinct strategies of one job misses."""
    slow = f" BELOW {LEAST_A_SECOND[model]}" if load.rate < LEAST_A_SECOND[model] else ""
    return slow + (f" P99 ABOVE {MOST_P99_S * 1e3:.0f} ms" if load.quantile_s(0.99) > MOST_P99_S else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--models", nargs="+", default=["small", "large"])
    parser.add_argument("--kinds", nargs="+", default=["distinct", "jobs", "same"])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--explain", default="none", help="parts of each answer: none, all, or one of them")
    given = parser.parse_args()
    with server() as url:
        process = next(child for child in psutil.Process().children() if any("serve" in part for part in child.cmdline()))
        port = int(url.rpartition(":")[2])
        for model, kind in itertools.product(given.models, given.kinds):
            questions = bodies(model, kind)
            ask_all = partial(drive, port, num_clients=given.clients, explain=given.explain)
            asyncio.run(ask_all(itertools.islice(questions, 200), 3.0, math.inf))  # the shared part is computed by then
            rate = math.inf
            for name in ("full", "half"):
                pricing = process.children(recursive=True)
                before_s = cpu_s([process]), cpu_s(pricing)
                load = asyncio.run(ask_all(questions, given.seconds, rate))
                load.server_cpu_s, load.pricing_cpu_s = cpu_s([process]) - before_s[0], cpu_s(pricing) - before_s[1]
                short = missed(model, load) if kind == "distinct" and name == "full" and given.explain == "none" else ""
                print(f"{model:<6}{kind:<11}{name:<5}{load.report()}{short}", flush=True)
                rate = load.rate / 2.0


if __name__ == "__main__":
    main()
