"""Physics of what saves memory: optimizer sharding, recompute and swap."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.recompute_modules import RecomputeModule, present_modules
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Exclusive, Feature
from cost_models.shapes.tensors import RECOMPUTABLE, dropped, tensor_names
from cost_models.shapes.workload import Workload
from frameworks.rule import Mask, Rule, SwitchRule, one_of, rules_in

ZERO_STAGE = Rule(
    "zero_stage",
    "[rajbhandari2020, section 5]",
    "zero_stage is 0 (nothing sharded), 1 (optimizer), 2 (and gradients) or 3 (and weights)",
    lambda w, b: (b.zero_stage < 0) | (b.zero_stage > 3),
    lambda w, s: f"zero_stage {s.zero_stage} does not exist: 0, 1, 2 or 3",
)


OPTIMIZER_SHARD = Rule(
    "optimizer_shard",
    "[megatron-0.12, parallel_state.py]",
    "optimizer_shard_size divides dp x cp (0: all of them)",
    lambda w, b: (
        (b.optimizer_shard_size < 0)
        | ((b.optimizer_shard_size > 0) & ((b.dp * b.cp) % np.maximum(b.optimizer_shard_size, 1) != 0))
    ),
    lambda w, s: (
        f"optimizer_shard_size {s.optimizer_shard_size} does not divide dp {s.dp} x cp {s.cp} = {s.dp * s.cp}, "
        "the ranks that hold the same weights"
    ),
)


def _recompute_method(workload: Workload, batch: StrategyBatch) -> Mask:
    full = batch.recompute == Recompute.FULL
    plan = batch.recompute_plan_index >= 0
    counted = (batch.recompute_method != RecomputeMethod.NONE) & (batch.recompute_num_layers > 0)
    mask: Mask = np.where(full, ~(plan | counted), plan | (batch.recompute_num_layers != 0))
    return mask


def _recompute_method_sentence(workload: Workload, s: ParallelStrategy) -> str:
    if s.recompute == Recompute.FULL:
        return (
            f"full recompute needs a method and layers: method is {s.recompute_method.label} and num_layers is "
            f"{s.recompute_num_layers}"
        )
    return (
        f"recompute {s.recompute.label} goes by module and takes no layer count, but num_layers is {s.recompute_num_layers}"
        + (
            ""
            if s.recompute_layers_per_stage is None
            else f" and layers_per_stage has {len(s.recompute_layers_per_stage)} entries"
        )
    )


RECOMPUTE_METHOD = Rule(
    "recompute_method",
    "[megatron-0.12, transformer_config.py]",
    "full recompute states a method and a number of layers; the others state none",
    _recompute_method,
    _recompute_method_sentence,
)

RECOMPUTE_MODULES = Rule(
    "recompute_modules",
    "[megatron-0.12, transformer_config.py]",
    "selective recompute names modules, and no recompute names none (with full, they hold for the layers it leaves out)",
    lambda w, b: np.where(b.recompute_modules == 0, b.recompute == Recompute.SELECTIVE, b.recompute == Recompute.NONE),
    lambda w, s: (
        f"recompute {s.recompute.label} with modules {module_names(s.recompute_modules)}: "
        "selective names at least one module, none names none"
    ),
)


def _absent(workload: Workload) -> RecomputeModule:
    """Modules that the model does not have."""
    return ~present_modules(workload.model)


def module_names(modules: RecomputeModule) -> str:
    """The names of a set of modules, as limits and reports spell them."""
    return " + ".join(str(m.name).lower() for m in RecomputeModule if m in modules) or "none"


RECOMPUTE_ABSENT = Rule(
    "recompute_absent",
    "[megatron-0.12, transformer_config.py]",
    "selective recompute names modules that the model has",
    lambda w, b: (b.recompute_modules & int(_absent(w))) != 0,
    lambda w, s: f"{w.model.name} has no {module_names(s.recompute_modules & _absent(w))} to recompute",
)


def _recompute_plan(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.recompute_plan_index >= 0
    if not given.any():
        return given
    lengths = np.array([len(plan) if all(n >= 0 for n in plan) else -1 for plan in batch.recompute_plans], dtype=np.int64)
    most = np.array([max(plan, default=0) for plan in batch.recompute_plans], dtype=np.int64)
    plan = batch.recompute_plan_index
    mask: Mask = given & ((lengths[plan] != batch.pp) | (most[plan] > workload.model.num_layers))
    return mask


def _recompute_plan_sentence(workload: Workload, s: ParallelStrategy) -> str:
    plan = s.recompute_layers_per_stage or ()
    return (
        f"recompute layers_per_stage has {len(plan)} entries from {min(plan, default=0)} to {max(plan, default=0)}; "
        f"it takes one a stage (pp {s.pp}), from 0 to {workload.model.num_layers}"
    )


RECOMPUTE_PLAN = Rule(
    "recompute_plan",
    "[mindformers-1.5, Offset_Recompute.md]",
    "recompute layers_per_stage has one entry a pipeline rank",
    _recompute_plan,
    _recompute_plan_sentence,
)


BESIDE_TENSORS = Feature.SWAP_ATTENTION | Feature.MOE_ZERO_MEMORY


def _tensor_plan_alone(workload: Workload, batch: StrategyBatch) -> Mask:
    others = (batch.recompute != Recompute.NONE) | batch.has(BESIDE_TENSORS)
    mask: Mask = (batch.tensor_plan_index >= 0) & others
    return mask


TENSOR_PLAN_ALONE = Rule(
    "tensor_plan_alone",
    "[pangu-ultra-moe-2]",
    "tensor_plan says alone what layers do not keep: no recompute, no swap_attention, no moe_zero_memory",
    _tensor_plan_alone,
    lambda w, s: (
        f"tensor_plan with recompute {s.recompute.label} and "
        f"{' and '.join(str(f.name).lower() for f in s.features & BESIDE_TENSORS) or 'no swap'}: "
        "it says alone what layers do not keep"
    ),
)


def _tensor_plan(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.tensor_plan_index >= 0
    kinds = len(workload.model.layer_kinds())
    for number, plan in enumerate(batch.tensor_plans):
        rows = batch.tensor_plan_index == number
        again, _ = dropped(plan)
        stages = [stage for row in plan for stage in row]
        both = any(choice.recompute & choice.swap for stage in stages for choice in stage)
        wrong = bool(again & ~RECOMPUTABLE) or both or any(len(stage) != kinds for stage in stages)
        pp = len(plan[0]) if plan and len({len(row) for row in plan}) == 1 else 0
        given = np.where(rows, wrong | (batch.pp != pp) | (batch.vpp != len(plan)), given)
    return given


def _tensor_plan_sentence(workload: Workload, s: ParallelStrategy) -> str:
    plan = s.tensor_plan or ()
    again, moved = dropped(plan)
    lost = again & ~RECOMPUTABLE
    return (
        f"tensor_plan has {len(plan)} x {max(map(len, plan), default=0)} virtual stages; it takes one choice for each of vpp "
        f"{s.vpp} x pp {s.pp} and each kind of layer ({len(workload.model.layer_kinds())}), of tensors that are either computed "
        f"again or moved"
        + (f"; nothing computes {' and '.join(tensor_names(lost))} again" if lost else "")
        + (f"; {' and '.join(tensor_names(again & moved))} may be both on one stage" if again & moved else "")
    )


TENSOR_PLAN = Rule(
    "tensor_plan",
    "[pangu-ultra-moe-2]",
    "tensor_plan has one choice for each virtual stage and kind of layer, and computes again what a forward can",
    _tensor_plan,
    _tensor_plan_sentence,
)


def tensor_plan_rule(name: str, source: str, framework: str) -> Rule:
    """The rule of a framework that recomputes by module."""

    def sentence(workload: Workload, s: ParallelStrategy) -> str:
        again, moved = dropped(s.tensor_plan or ())
        return (
            f"tensor_plan drops {', '.join(tensor_names(again | moved))} by virtual stage: {framework} takes modules, "
            "the same on all stages"
        )

    requirement = "recompute goes by module, the same on all stages, not by tensor"
    return Rule(name, source, requirement, lambda w, b: b.tensor_plan_index >= 0, sentence)


SWAP_OR_REUSE = one_of(
    Exclusive.MASTER_WEIGHTS,
    "swap_or_reuse",
    "[mindspeed, swap_optimizer_feature.py]",
    "swap_optimizer moves the master weights to the host, reuse_fp32_param keeps them in the weights: one of the two",
    lambda on, s: (
        "swap_optimizer moves the master weights to the host and reuse_fp32_param keeps them in the weights: choose 1 of the 2"
    ),
    gives_way=Feature.REUSE_FP32_PARAM,
)

REUSE_NEEDS_BF16 = SwitchRule(
    "reuse_needs_bf16",
    "[mindspeed, reuse_fp32_param.py]",
    "reuse_fp32_param splits FP32 into BF16 and a rest, so training is in bf16",
    lambda w, b: b.has(Feature.REUSE_FP32_PARAM) & (w.training.precision != "bf16"),
    lambda w, s: f"reuse_fp32_param splits FP32 weights into bf16 and a rest, and precision is {w.training.precision}",
    subject=Feature.REUSE_FP32_PARAM,
    reason=lambda w, s: "it needs bf16",
)

RULES = rules_in(globals())
