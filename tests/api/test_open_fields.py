"""A study warns of what its job leaves open, as the command line does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.jobs.job import parse_job

CLUSTER = {"hardware": "h100-sxm-80gb", "num_devices": 16}
FINE_TUNE = {
    "model": "llama-3.1-8b",
    "cluster": CLUSTER,
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "task": "sft"},
    "software": {"target": "megatron-lm@0.19"},
    "search": {"tp": 2, "pp": 1, "cp": 1, "micro_batch_size": 1, "recompute": ["none"], "top": 1, "forbid": ["mc2"]},
}
EIGHT_BITS = {
    "model": "qwen3-8b",
    "cluster": CLUSTER,
    "training": {"seq_length": 8192, "global_batch_size": 128, "precision": "fp8"},
    "software": {"target": "any"},
    "search": {"tp": 2, "pp": 1, "micro_batch_size": 2, "top": 1},
}


@pytest.mark.parametrize(("job", "words"), [(FINE_TUNE, "their lengths are not known"), (EIGHT_BITS, "fp8_recipe is not stated")])
def test_a_study_warns_as_the_command_line_does(
    api: TestClient, finish: Callable[[str], None], job: dict[str, Any], words: str
) -> None:
    name = api.post("/v1/studies", json=job).json()["id"]
    finish(name)
    found, here = api.get(f"/v1/studies/{name}").json()["warnings"], search_document(with_usual_target(parse_job(job)))
    assert found == here.warnings
    assert any(words in sentence for sentence in found)
    (plan,) = api.get(f"/v1/studies/{name}/plans").json()["items"]
    assert plan["estimate"]["step_time_low_s"] == pytest.approx(here.plans[0].estimate.step_time_low_s)
