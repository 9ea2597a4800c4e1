"""Samples that share a sequence, and no stated lengths: every answer has the interval of its launch file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.answers.open_fields import warnings_of
from app.answers.open_lengths import SHORTEST_SAMPLE
from app.answers.price import estimate_document
from app.jobs.job import parse_job
from tests.commands import command

SEQUENCE = 4096
STATED = "--lengths states them."


def job(target: str, **training: Any) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
        "training": {"seq_length": SEQUENCE, "global_batch_size": 64, "precision": "bf16", "task": "sft", **training},
        "software": {"target": target},
        "search": {"tp": 2, "pp": 1, "cp": 1, "micro_batch_size": 1, "recompute": ["none"], "top": 1},
    }


PACKED = job("megatron-lm@0.19")
WITHIN_DOCUMENTS = {**job("torchtitan", task="pretrain"), "model": "deepseek-v2-lite"} | {
    "search": {"tp": 1, "pp": 1, "cp": 1, "ep": 16, "micro_batch_size": 1, "recompute": ["full"], "top": 1}
}


@pytest.mark.parametrize(("asked", "name"), [(PACKED, "plan-1.megatron-lm.sh"), (WITHIN_DOCUMENTS, "plan-1.torchtitan.toml")])
def test_a_search_a_job_and_the_launch_file_have_one_interval(tmp_path: Path, asked: dict[str, Any], name: str) -> None:
    path, folder = tmp_path / "tune.json", tmp_path / "plans"
    path.write_text(json.dumps(asked))
    found = json.loads(command("search", path, "--save-dir", folder, "--json").stdout)
    planned = json.loads(command("estimate", folder / "plan-1.job.yaml", "--json").stdout)
    script = folder / name
    read = json.loads(command("estimate", script, "--hardware", "h100-sxm-80gb", "--devices", "16", "--json").stdout)
    wanted = ("--hardware", "h100-sxm-80gb", "--devices", "16", "--time-limit", "5", "--json")
    tuned = json.loads(command("tune", script, *wanted).stdout)
    of_search = found["plans"][0]["estimate"]
    for estimate in (planned["estimate"], read["estimate"], tuned["estimate"]):
        for end in ("step_time_s", "step_time_low_s", "step_time_high_s"):
            assert estimate[end] == pytest.approx(of_search[end], rel=1e-9)
    for answer in (found, planned, read, tuned):
        assert [STATED in sentence for sentence in answer["warnings"]].count(True) == 1


def test_the_lower_end_is_for_samples_of_a_few_tokens() -> None:
    strategy = {"tp": 2, "micro_batch_size": 1}

    def estimate(**training: Any) -> Any:
        given = parse_job(job("megatron-lm@0.19", **training) | {"strategy": strategy})
        assert given.strategy is not None
        return estimate_document(given, given.strategy)

    unstated, whole = estimate(), estimate(mean_squared_length_fraction=1.0)
    shortest = estimate(mean_squared_length_fraction=SHORTEST_SAMPLE / SEQUENCE)
    assert unstated.estimate.step_time_s == whole.estimate.step_time_s
    assert unstated.estimate.step_time_high_s == whole.estimate.step_time_high_s
    narrowed = unstated.estimate.step_time_low_s / whole.estimate.step_time_low_s
    assert narrowed == pytest.approx(shortest.estimate.step_time_s / whole.estimate.step_time_s)
    assert narrowed < 0.95
    assert [any(STATED in each for each in one.warnings) for one in (unstated, whole, shortest)] == [True, False, False]


@pytest.mark.parametrize(
    ("target", "task", "hardware", "in_doubt"),
    [
        ("any", "sft", "h100-sxm-80gb", True),  # its stack's launch files pack
        ("any", "pretrain", "h100-sxm-80gb", False),
        ("torchtitan", "pretrain", "h100-sxm-80gb", False),  # its qwen3 attends to whole sequences
        ("megatron-lm@0.19", "pretrain", "h100-sxm-80gb", False),
        ("mindspeed-llm-fsdp2", "sft", "atlas-900-a2-podc", True),  # samples stay as short as they are
        ("mindspeed-llm", "sft", "atlas-900-a2-podc", False),  # pads
        ("mindformers", "sft", "atlas-900-a2-podc", False),  # pads
    ],
)
def test_lengths_are_in_doubt_where_the_launch_file_packs(target: str, task: str, hardware: str, *, in_doubt: bool) -> None:
    asked = job(target, task=task)
    asked["model"], asked["cluster"]["hardware"] = "qwen3-8b", hardware
    assert any(STATED in sentence for sentence in warnings_of(parse_job(asked))) is in_doubt
