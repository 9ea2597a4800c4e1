"""``software.torch_compile``: what it decides, and where it is taken from."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.job import parse_job
from cost_models.shapes.effective_switches import usual_features
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from documents.errors import InputError


def job(**software: Any) -> Any:
    cluster = {"hardware": "h100-sxm-80gb", "num_devices": 64}
    return parse_job({"model": "llama-3.1-8b", "cluster": cluster, "software": software})


@pytest.mark.parametrize(
    ("software", "stack", "compiled"),
    [
        ({"target": "torchtitan"}, "fsdp", True),
        ({"target": "torchtitan@0.2", "torch_compile": False}, "fsdp", False),
        ({"stack": "fsdp"}, "fsdp", False),
        ({"stack": "fsdp", "torch_compile": True}, "fsdp", True),
        ({"target": "megatron-lm"}, "megatron-lm", False),
        ({"target": "torchtitan", "stack": "nemo"}, "nemo", False),  # its kernels are its own
    ],
)
def test_the_target_compiles_and_a_job_may_say_otherwise(software: dict[str, Any], stack: str, compiled: bool) -> None:
    made = job(**software).workload
    assert (made.software.stack, made.software.torch_compile) == (stack, compiled)
    plain = stack == "fsdp" and not compiled
    assert made.software.plain_cross_entropy == plain
    assert usual_features(made) & FUSED_KERNELS == (Feature(0) if plain else FUSED_KERNELS)


def test_a_stack_with_kernels_of_its_own_cannot_be_compiled() -> None:
    with pytest.raises(InputError, match="give it for stack fsdp"):
        job(stack="megatron-lm", torch_compile=True)


def test_a_resolved_job_is_the_same_job() -> None:
    first = job(target="torchtitan")
    again = parse_job({name: part for name, part in first.document.items() if name != "assumed"})
    assert again.workload == first.workload


def test_times_of_another_stack_than_the_targets_are_warned_of() -> None:
    assert any("give stack fsdp" in warning for warning in job(target="torchtitan", stack="nemo").warnings)
    assert not any("give stack" in warning for warning in job(target="torchtitan").warnings)


@pytest.mark.parametrize(
    ("target", "strategy", "stage"),
    [
        ("torchtitan", {"recompute": "full"}, 3),
        ("torchtitan", {"pp": 4}, 2),
        ("torchtitan", {"pp": 4, "zero_stage": 3}, 3),
        ("any", {"distributed_optimizer": True}, 1),
        ("megatron-lm", {}, 1),
    ],
)
def test_a_strategy_of_fsdp_without_a_zero_stage_has_pytorchs_default(target: str, strategy: dict[str, Any], stage: int) -> None:
    cluster = {"hardware": "h100-sxm-80gb", "num_devices": 64}
    made = parse_job({"model": "llama-3.1-8b", "cluster": cluster, "software": {"target": target}, "strategy": strategy})
    assert made.strategy is not None
    assert made.strategy.zero_stage == stage
