"""Fused attention is planned with where the devices have a kernel for the job's precision."""

from __future__ import annotations

import pytest

from app.jobs.job import Job, parse_job
from cost_models.shapes.switches import Feature
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space


def job(hardware: str, precision: str, **more: object) -> Job:
    return parse_job(
        {
            "model": "llama-2-7b",
            "cluster": {"hardware": hardware, "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": 8, "precision": precision},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("hardware", "precision", "fused"),
    [
        ("v100-sxm-32gb", "fp16", False),
        ("a100-sxm-80gb", "fp16", True),
        ("a100-sxm-80gb", "fp32", False),
        ("h100-sxm-80gb", "fp8", True),
        ("atlas-800t-a2", "fp32", True),
    ],
)
def test_attention_is_fused_where_there_is_a_kernel(hardware: str, precision: str, fused: bool) -> None:
    space = search_space(job(hardware, precision).workload)
    assert {Feature.FLASH_ATTENTION in features for features in space.features} == {fused}
    assert (recompute_mode("core_attn") in space.recompute) is not fused
    estimated = job(hardware, precision, strategy={"tp": 8}).strategy
    assert estimated is not None
    assert (Feature.FLASH_ATTENTION in estimated.features) is fused


@pytest.mark.parametrize(("hardware", "warned"), [("atlas-800t-a2", True), ("h100-sxm-80gb", False)])
def test_a_kernel_that_the_devices_do_without_is_warned_of(hardware: str, warned: bool) -> None:
    warnings = job(hardware, "bf16", software={"portable_attention": True}).warnings
    assert any("portable_attention has no effect" in line for line in warnings) is warned
