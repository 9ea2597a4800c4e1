"""Speed of the REST API in pricing strategies: a real server on a free port, one client on the same machine."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import httpx

from scripts.dashboard.server import server

JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144, "precision": "bf16"},
}
STRATEGY = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "micro_batch_size": 2}
SINGLE_LIMIT_S = 0.020
MANY_LIMIT_S = 1.0


def strategies(count: int) -> list[dict[str, Any]]:
    """Distinct strategies of the job. Some cannot run; each refusal costs as much as a price."""
    axes: dict[str, list[Any]] = {
        "tp": [8, 4, 2, 1],
        "pp": [16, 8, 4],
        "vpp": [1, 2],
        "ep": [8, 16, 32, 64],
        "micro_batch_size": [1, 2, 4, 8],
        "zero_stage": [0, 1],
        "recompute": [
            "none",
            "full",
            "block:1",
            "block:2",
            "layernorm",
            "mlp_act",
            "layernorm+mlp_act",
            "moe",
            "mlp",
            "core_attn",
        ],
        "moe_dispatcher": ["allgather", "alltoall"],
    }
    rows = itertools.product(*axes.values())
    return [dict(zip(axes, row, strict=True)) for row in itertools.islice(rows, count)]


def timed_s(call: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        started_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - started_s)
    return times


def main() -> None:
    many = strategies(10_000)
    with server() as url, httpx.Client(base_url=url, timeout=60) as client:

        def post(body: dict[str, Any]) -> httpx.Response:
            return client.post("/v1/estimates", json=body).raise_for_status()

        one_body, many_body = {**JOB, "strategy": STRATEGY}, {**JOB, "strategies": many}
        timed_s(lambda: post(one_body), 20)
        answer = post(many_body)
        refused = sum("refused" in entry for entry in answer.json()["estimates"])
        rows = (
            ("one strategy", timed_s(lambda: post(one_body), 200), SINGLE_LIMIT_S),
            ("10,000 strategies", timed_s(lambda: post(many_body), 7), MANY_LIMIT_S),
        )
    print(f"10,000 strategies: {refused:,} refused, {len(answer.content) / 1e6:.1f} MB of answer")
    print(f"{'request':<20}{'median':>10}{'p95':>10}{'target':>10}")
    for name, times, limit_s in rows:
        worst = sorted(times)[int(0.95 * len(times))]
        print(f"{name:<20}{statistics.median(times) * 1e3:>8.1f}ms{worst * 1e3:>8.1f}ms{limit_s * 1e3:>8.0f}ms")


if __name__ == "__main__":
    main()
