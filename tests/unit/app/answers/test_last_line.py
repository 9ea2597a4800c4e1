"""The last line of a search of a task for which no file is written: programs outside start what they have."""

from __future__ import annotations

import io
from typing import Any

import pytest

from app.answers.search import search_document
from app.answers.tables.search import print_search
from app.jobs.job import parse_job
from app.text.terminal import plain_text

QLORA: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 32, "task": "qlora", "adapter": {"rank": 16}},
    "software": {"target": "any"},
}
ONE = {"tp": [1], "pp": [1], "cp": [1], "micro_batch_size": [2], "recompute": ["none"]}


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"swap_attention": [True]}, "--forbid swap_attention plans for LLaMA-Factory and ms-swift"),
        ({"forbid": ["swap_attention", "reuse_fp32_param"], "recompute": ["full"]}, "LLaMA-Factory and ms-swift start it with"),
    ],
)
def test_a_plan_with_switches_that_they_lack_is_not_sent_to_other_programs(search: dict[str, Any], said: str) -> None:
    printed = io.StringIO()
    print_search(plain_text(printed, 200), search_document(parse_job({**QLORA, "search": {**ONE, **search}})))
    last = next(line for line in printed.getvalue().splitlines() if line.startswith("Next"))
    assert said in last
