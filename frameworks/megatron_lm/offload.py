"""Fine-grained activation offloading of core 0.19 as a plan by tensor: the same swaps on all layers, beside recompute by module.

A module's input goes to the host [megatron-0.19, fine_grained_activation_offload.py; attention.py; experts.py]. Inputs that no
tensor of a plan matches are not understood: those of the norms and of the projection before attention, which the linear layers of
Transformer Engine join, and those of latent attention, whose queries and keys come with their normed latents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorPlan, TensorShare, dropped
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence
from frameworks.model_facts import Arguments
from frameworks.physics.memory import dropped_names
from frameworks.rule import Mask, Rule

SWITCH, MODULES, FRACTION, SMALLEST = (
    "fine-grained-activation-offloading",
    "offload-modules",
    "activation-offload-fraction",
    "min-offloaded-tensor-size",
)
ENVIRONMENT = {"NVTE_CPU_OFFLOAD_V1": "1"}  # else Transformer Engine moves weights as well [megatron-0.19, arguments.py]
SWAPPED = {
    "core_attn": Tensor.QUERY_KEY_VALUE,
    "attn_proj": Tensor.ATTENTION_OUTPUT,
    "expert_fc1": Tensor.EXPERT_INPUT,
    "moe_act": Tensor.EXPERT_HIDDEN,
}
OF_EXPERTS = Tensor.EXPERT_INPUT | Tensor.EXPERT_HIDDEN


def _has_plain_attention(model: ModelShape) -> bool:
    return model.mla is None and (model.local_attention is None or not model.local_attention.is_linear)


def modules_of(model: ModelShape) -> list[str]:
    """Names of the modules whose inputs can be planned for a model."""
    attention = ["core_attn", "attn_proj"] if _has_plain_attention(model) else []
    return [*attention, *(["expert_fc1", "moe_act"] if model.moe is not None else [])]


def plan_of(model: ModelShape, names: Sequence[str], pp: int, vpp: int) -> TensorPlan | None:
    """The plan that offloads the inputs of the named modules; ``None`` if no plan says it, or the framework refuses the names."""
    known = modules_of(model)
    if not names or not set(names) <= set(known) or ("attn_proj" in names and "core_attn" not in names):
        return None
    swap = Tensor(0)
    for name in names:
        swap |= SWAPPED[name]
    of_kinds = tuple((TensorShare(TensorChoice(swap=swap if kind.moe else swap & ~OF_EXPERTS)),) for kind in model.layer_kinds())
    return tuple((of_kinds,) * pp for _ in range(vpp))


def names_of(model: ModelShape, plan: TensorPlan) -> list[str] | None:
    """The modules whose offloading is exactly the plan; ``None`` if it is another."""
    moved = dropped(plan)[1]
    names = [name for name in modules_of(model) if SWAPPED[name] in moved]
    return names if plan_of(model, names, len(plan[0]) if plan else 0, len(plan)) == plan else None


def arguments_of(model: ModelShape, plan: TensorPlan | None) -> Arguments:
    """Arguments that say the plan. Small tensors go as well, as they are priced."""
    names = None if plan is None else names_of(model, plan)
    return {} if not names else {SWITCH: (), MODULES: tuple(names), SMALLEST: 1}


def forms(workload: Workload, whole: ParallelStrategy) -> Iterator[ParallelStrategy]:
    """A strategy that keeps everything, under each set of offloaded inputs, beside recompute of norms and activations."""
    model = workload.model
    known = modules_of(model)
    for names in (some for size in range(1, len(known) + 1) for some in combinations(known, size)):
        plan = plan_of(model, names, whole.pp, whole.vpp)
        if plan is None:
            continue
        yield replace(whole, tensor_plan=plan)
        for modules in (
            RecomputeModule.LAYERNORM,
            RecomputeModule.MLP_ACT,
            RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT,
        ):
            yield replace(whole, tensor_plan=plan, recompute=Recompute.SELECTIVE, recompute_modules=modules)


def _refused(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.tensor_plan_index >= 0
    if not given.any():
        return given
    training = workload.training
    if training.precision not in ("bf16", "fp16") or training.task.name is Task.LORA:
        return given
    named = [set(names_of(workload.model, plan) or ()) for plan in batch.tensor_plans]

    def rows(holds: Callable[[set[str]], bool]) -> Mask:
        mask: Mask = np.array([holds(names) for names in named])[batch.tensor_plan_index]
        return mask

    known, attention = rows(bool), rows(lambda names: "core_attn" in names)
    grouped = rows(lambda names: not names.isdisjoint(("expert_fc1", "moe_act")))
    apart = (grouped & ~batch.has(Feature.MOE_GROUPED_GEMM)) | (attention & ~batch.has(Feature.FLASH_ATTENTION))
    mask: Mask = given & (~known | apart | batch.has(Feature.CUDA_GRAPH))
    return mask


def _sentence(_workload: Workload, s: ParallelStrategy) -> str:
    return Sentence(
        "tensor_plan drops {} by virtual stage: core 0.19 moves the inputs of core_attn, attn_proj, expert_fc1 and moe_act, on "
        "all layers, and recomputes modules",
        dropped_names(s),
    )


OFFLOAD = Rule(
    "megatron_offload",
    "[megatron-0.19, fine_grained_activation_offload.py; megatron-0.19, transformer_config.py]",
    Sentence(
        "tensor_plan swaps inputs of attention, its projection, experts or their activation alike on all layers, in 16 bits, "
        "with flash_attention and moe_grouped_gemm, without cuda_graph and adapters; the plan itself recomputes nothing; "
        "layernorm and mlp_act may be recomputed beside it"
    ),
    _refused,
    _sentence,
)
