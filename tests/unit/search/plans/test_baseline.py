"""The plan that a gain is measured against, where no recipe is published."""

from __future__ import annotations

from dataclasses import replace

from app.catalogue.models.presets import resolve_model
from cost_models.constants import prior_constants
from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.workload import Software
from search.plans.baseline import default_baseline
from tests.search_workloads import workload


def test_a_target_that_only_gathers_keys_has_a_baseline_of_long_sequences() -> None:
    model, _ = resolve_model("llama-3.1-8b")
    job = workload(model, hardware="h100-sxm-80gb", num_devices=8, seq_length=262144, global_batch_size=8)
    job = replace(job, software=Software("fsdp", target="torchtitan"))
    found = default_baseline(job, prior_constants("nvidia"))
    assert found is not None
    assert found.cp > 1
    assert found.cp_algo is CpAlgo.KV_ALLGATHER
