"""Fine-grained activation offloading of core 0.19: read as a plan by tensor, written from one, refused where no plan says it."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.job import parse_job
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Recompute
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from frameworks.framework import ReadJob
from frameworks.registry import BY_LABEL

CORE = BY_LABEL["megatron-lm@0.19"]
SWITCH = "--fine-grained-activation-offloading"
MIXTURE: dict[str, Any] = {
    "model": "qwen3-30b-a3b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "software": {"target": "megatron-lm@0.19"},
    "strategy": {"tp": 2, "pp": 2, "ep": 4},
}


def read(*more: str, without: tuple[str, ...] = (), job: dict[str, Any] = MIXTURE) -> ReadJob:
    """A written script of the job with further arguments, read again."""
    made = parse_job(job)
    assert made.strategy is not None
    written = [each for each in CORE.write(made.workload, made.strategy).arguments if each not in without]
    return CORE.read_job([*written, *more], 16)


def swapped(job: ReadJob) -> set[TensorChoice]:
    assert job.strategy.tensor_plan is not None
    assert [len(row) for row in job.strategy.tensor_plan] == [2]
    return {share.choice for row in job.strategy.tensor_plan for stage in row for kind in stage for share in kind}


@pytest.mark.parametrize(
    ("names", "tensors"),
    [
        ("core_attn", Tensor.QUERY_KEY_VALUE),
        ("core_attn attn_proj", Tensor.QUERY_KEY_VALUE | Tensor.ATTENTION_OUTPUT),
        ("expert_fc1", Tensor.EXPERT_INPUT),
        ("moe_act expert_fc1", Tensor.EXPERT_HIDDEN | Tensor.EXPERT_INPUT),
    ],
)
def test_offloaded_inputs_are_swapped_tensors(names: str, tensors: Tensor) -> None:
    job = read(SWITCH, "--offload-modules", *names.split())
    assert job.unread == ()
    assert swapped(job) == {TensorChoice(swap=tensors)}


def test_recompute_of_norms_and_activations_stays_beside_it() -> None:
    beside = ("--recompute-granularity", "selective", "--recompute-modules", "layernorm", "moe_act")
    job = read(*beside, SWITCH, "--offload-modules", "moe_act")
    assert job.unread == ()
    assert swapped(job) == {TensorChoice(swap=Tensor.EXPERT_HIDDEN)}
    assert job.strategy.recompute is Recompute.SELECTIVE
    assert job.strategy.recompute_modules == RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT


@pytest.mark.parametrize(
    "more",
    [
        ("--offload-modules", "attn_proj"),  # its input is what core_attn keeps: the framework refuses it alone
        ("--offload-modules", "attn_norm"),
        ("--offload-modules", "core_attn", "mlp_norm"),
        ("--offload-modules", "core_attn", "--activation-offload-fraction", "0.5"),
        ("--offload-modules", "core_attn", "--recompute-granularity", "selective", "--recompute-modules", "moe"),
        ("--offload-modules", "core_attn", "--recompute-granularity", "full", "--recompute-method", "uniform",
         "--recompute-num-layers", "1"),
        (),
    ],
)  # fmt: skip
def test_what_no_plan_says_is_not_understood(more: tuple[str, ...]) -> None:
    job = read(SWITCH, *more)
    assert SWITCH.removeprefix("--") in {entry.name for entry in job.unread}
    assert job.strategy.tensor_plan is None


def test_inputs_of_latent_attention_are_not_understood() -> None:
    latent = {**MIXTURE, "model": "deepseek-v2-lite", "strategy": {"tp": 1, "pp": 1, "ep": 4}}
    assert {entry.name for entry in read(SWITCH, "--offload-modules", "core_attn", job=latent).unread} >= {SWITCH[2:]}
    experts = read(SWITCH, "--offload-modules", "expert_fc1", job=latent)
    assert SWITCH[2:] not in {entry.name for entry in experts.unread}
    plan = experts.strategy.tensor_plan
    assert plan is not None
    dense, moe = plan[0][0]  # the first layer is dense and has no experts
    assert (dense, moe) == ((TensorShare(),), (TensorShare(TensorChoice(swap=Tensor.EXPERT_INPUT)),))


def test_a_plan_of_such_swaps_is_written_with_its_variable() -> None:
    of_kind = {"moe": {"recompute": [], "swap": ["query_key_value", "attention_output", "expert_input"]}}
    strategy = {
        **MIXTURE["strategy"],
        "tensor_plan": [[of_kind, of_kind]],
        "recompute": {"granularity": "selective", "modules": ["layernorm"]},
    }
    made = parse_job({**MIXTURE, "strategy": strategy})
    assert made.strategy is not None
    launch = CORE.write(made.workload, made.strategy)
    text = " ".join(launch.arguments)
    assert f"{SWITCH} --offload-modules core_attn attn_proj expert_fc1 --min-offloaded-tensor-size 1" in text
    assert "--recompute-modules layernorm" in text
    assert launch.environment["NVTE_CPU_OFFLOAD_V1"] == "1"
    again = CORE.read_job(list(launch.arguments), 16)
    assert again.strategy.tensor_plan == made.strategy.tensor_plan
