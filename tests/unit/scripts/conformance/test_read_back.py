"""A launch file is read back at its plan's price, and one that says another plan is told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.answers.files import plan_files
from app.jobs.job import parse_job
from frameworks.launch import launch_block
from scripts.conformance.read_back import other_prices
from search.plans.plan import strategy_to_mapping

JOB: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "software": {"target": "megatron-lm@0.19"},
    "strategy": {"tp": 2, "micro_batch_size": 2, "recompute": "full"},
}


def saved(folder: Path) -> tuple[Path, Path]:
    job = parse_job(JOB)
    assert job.strategy is not None
    plan = {
        "rank": 1,
        "plan_id": "abc",
        "strategy": strategy_to_mapping(job.workload, job.strategy),
        "launch": launch_block(job.workload, job.strategy),
    }
    written: dict[str | None, Path] = {}
    for framework, name, text in plan_files(plan, job.document, 8):
        written[framework] = folder / name
        written[framework].write_text(text, encoding="utf-8")
    return written["megatron-lm"], written[None]


def test_a_file_costs_what_its_plan_costs(tmp_path: Path) -> None:
    assert other_prices([saved(tmp_path)], 1) == [""]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("--micro-batch-size 2", "--micro-batch-size 1", "costs "),
        ("--recompute-granularity full", "--recompute-granularity selective", "is not read: "),
        ("--num-layers 36", "--num-layers many", "is not read: "),
    ],
)
def test_a_file_that_says_another_plan_is_told_apart(tmp_path: Path, old: str, new: str, said: str) -> None:
    file, job = saved(tmp_path)
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    (found,) = other_prices([(file, job)], 1)
    assert found.startswith(said)
