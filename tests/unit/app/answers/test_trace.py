"""A trace as viewers read it."""

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from app.answers.simulation import PlayedStep, play
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for
from app.jobs.job import parse_job

JOB: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 1024},
    "training": {"seq_length": 4096, "global_batch_size": 1024},
    "strategy": {"pp": 16, "vpp": 2, "tp": 4, "ep": 16, "recompute": "full"},  # dp 16: 64 micro batches
}


def played(**strategy: Any) -> PlayedStep:
    job = parse_job({**JOB, "strategy": {**JOB["strategy"], **strategy}})
    assert job.strategy is not None
    return play(job.workload, job.strategy, constants_for(job.workload))


@pytest.fixture(scope="module")
def step() -> PlayedStep:
    return played()


def parsed(text: str) -> dict[str, list[dict[str, Any]]]:
    """Events by phase; every event must have what its phase needs."""
    found: dict[str, list[dict[str, Any]]] = {"M": [], "X": [], "C": []}
    for event in json.loads(text)["traceEvents"]:
        found[event["ph"]].append(event)
        assert isinstance(event["pid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["tid"], int)
            assert event["dur"] >= 0
            assert event["name"]
    return found


def test_every_rank_and_stream_is_named_and_no_two_bars_of_one_overlap(step: PlayedStep) -> None:
    events = parsed(trace_text(step))
    processes = {event["pid"]: event["args"]["name"] for event in events["M"] if event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events["M"] if event["name"] == "thread_name"}
    assert processes == {rank: f"pipeline rank {rank}" for rank in range(16)}
    assert {(event["pid"], event["tid"]) for event in events["X"]} == set(threads)
    assert set(threads.values()) == {"compute", "expert communication", "p2p", "data parallel", "optimizer"}
    assert len(events["X"]) == len(step.timeline.bars)
    rows = sorted((event["pid"], event["tid"], event["ts"], event["dur"]) for event in events["X"])
    for (*before, start, length), (*after, follows, _) in pairwise(rows):
        assert before != after or round((start + length) * 1e3) <= round(follows * 1e3)


def test_it_begins_at_zero_and_ends_with_the_step_in_microseconds(step: PlayedStep) -> None:
    events = parsed(trace_text(step))["X"]
    assert min(event["ts"] for event in events) == 0.0
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(step.timeline.step_time_s * 1e6, rel=1e-12)


def test_bars_say_their_chunk_and_micro_batch_where_they_have_one(step: PlayedStep) -> None:
    events = parsed(trace_text(step))["X"]
    for rank in range(16):
        forwards = {
            (event["args"]["chunk"], event["args"]["micro_batch"])
            for event in events
            if event["name"] == "forward" and event["pid"] == rank
        }
        assert forwards == {(chunk, micro_batch) for chunk in range(2) for micro_batch in range(64)}
    assert all(event["args"] == {} for event in events if event["name"] in ("optimizer", "gather", "reduce", "step_overhead"))


def test_memory_is_a_counter_of_each_rank_in_the_order_of_time(step: PlayedStep) -> None:
    counters = parsed(trace_text(step))["C"]
    for rank, curve in enumerate(step.memory):
        own = [event for event in counters if event["pid"] == rank]
        assert [event["args"]["bytes"] for event in own] == curve.allocated_bytes
        assert all(before["ts"] <= after["ts"] for before, after in pairwise(own))


def test_merged_pairs_name_the_micro_batch_of_each_exchange() -> None:
    features = ["flash_attention", "moe_grouped_gemm", "moe_comm_overlap"]
    shown = played(schedule="dualpipev", features=features)
    events = parsed(trace_text(shown))["X"]
    assert {"pair", "input_gradient", "weight_gradient"} <= {event["name"] for event in events}
    pair = next(event for event in events if event["name"] == "pair" and event["pid"] == 8)
    inside = [
        event["args"]["micro_batch"]
        for event in events
        if event["pid"] == 8 and event["cat"] == "expert_communication" and pair["ts"] <= event["ts"] < pair["ts"] + 1e5
    ]
    assert len(set(inside)) > 1


def test_sixteen_ranks_of_sixty_four_micro_batches_take_less_than_a_second() -> None:
    began_s = time.process_time()
    text = trace_text(played())
    assert time.process_time() - began_s < 1.0
    assert len(text) > 1e6
