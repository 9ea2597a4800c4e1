"""Rules on memory saving: optimizer sharding, recompute and swap."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.recompute_modules import RecomputeModule, names_of, present_modules
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Exclusive, Feature
from cost_models.shapes.tensors import RECOMPUTABLE, TENSORS, TensorPlan, choices_of, dropped, tensor_names
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import host_bytes_of_node
from documents.quantities import gibibytes
from documents.sentences import Sentence, joined
from frameworks.rule import Mask, Rule, SwitchRule, every_row, none_of, one_of, rules_in

ZERO_STAGE = Rule(
    "zero_stage",
    "[rajbhandari2020, section 5]",
    Sentence("zero_stage is 0 (nothing sharded), 1 (optimizer), 2 (and gradients) or 3 (and weights)"),
    lambda w, b: (b.zero_stage < 0) | (b.zero_stage > 3),
    lambda w, s: Sentence("zero_stage {} does not exist: 0, 1, 2 or 3", s.zero_stage),
)


OPTIMIZER_SHARD = Rule(
    "optimizer_shard",
    "[megatron-0.12, parallel_state.py]",
    Sentence("optimizer_shard_size divides dp x cp (0: all of them)"),
    lambda w, b: (
        (b.optimizer_shard_size < 0)
        | ((b.optimizer_shard_size > 0) & ((b.dp * b.cp) % np.maximum(b.optimizer_shard_size, 1) != 0))
    ),
    lambda w, s: Sentence(
        "optimizer_shard_size {} does not divide dp {} x cp {} = {}, the ranks that hold the same weights",
        s.optimizer_shard_size,
        s.dp,
        s.cp,
        s.dp * s.cp,
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
        return Sentence(
            "full recompute needs a method and layers: method is {} and num_layers is {}",
            s.recompute_method.label,
            s.recompute_num_layers,
        )
    return Sentence(
        "recompute {} goes by module and takes no layer count, but num_layers is {}{}",
        s.recompute.label,
        s.recompute_num_layers,
        ""
        if s.recompute_layers_per_stage is None
        else Sentence(" and layers_per_stage has {} entries", len(s.recompute_layers_per_stage)),
    )


RECOMPUTE_METHOD = Rule(
    "recompute_method",
    "[megatron-0.12, transformer_config.py]",
    Sentence("full recompute states a method and a number of layers; the others state none"),
    _recompute_method,
    _recompute_method_sentence,
)

RECOMPUTE_MODULES = Rule(
    "recompute_modules",
    "[megatron-0.12, transformer_config.py]",
    Sentence(
        "selective recompute names modules, and no recompute names none (with full, they hold for the layers it leaves out)"
    ),
    lambda w, b: np.where(b.recompute_modules == 0, b.recompute == Recompute.SELECTIVE, b.recompute == Recompute.NONE),
    lambda w, s: Sentence(
        "recompute {} with modules {}: selective names at least one module, none names none",
        s.recompute.label,
        module_names(s.recompute_modules),
    ),
)


def _absent(workload: Workload) -> RecomputeModule:
    """Recompute modules that the model lacks."""
    return ~present_modules(workload.model)


def module_names(modules: RecomputeModule) -> str:
    """The names of a set of modules, as in limits and reports."""
    return " + ".join(names_of(modules)) or "none"


RECOMPUTE_ABSENT = Rule(
    "recompute_absent",
    "[megatron-0.12, transformer_config.py]",
    Sentence("selective recompute names modules that the model has"),
    lambda w, b: (b.recompute_modules & int(_absent(w))) != 0,
    lambda w, s: Sentence("{} has no {} to recompute", w.model.name, module_names(s.recompute_modules & _absent(w))),
)


_BY_OPERATOR = RecomputeModule.EVERY_OTHER_MATMUL
_PLAIN_PRECISIONS = ("bf16", "fp16", "fp32")


def _not_plain(workload: Workload) -> str:
    """Why matmuls of a layer are not plain PyTorch's, each with weights that are trained; empty if they are."""
    training, traits = workload.training, workload.software_traits
    if not traits.fp32_shards or traits.own_kernels:
        return Sentence("layers of stack {} are not plain PyTorch's", workload.software.stack)
    if training.task.adapters is not None:
        return Sentence("adapters add matmuls of their own")
    if training.precision not in _PLAIN_PRECISIONS:
        return Sentence("matmuls in {} are other operators", training.precision)
    return ""


def _of_latents(s: ParallelStrategy) -> str:
    """Why no price is known of latent attention's layers; empty where modules are named that do not stand alone."""
    return Sentence("latent attention with tp {} has no price", s.tp) if s.recompute_modules == _BY_OPERATOR else ""


RECOMPUTE_BY_OPERATOR = Rule(
    "recompute_by_operator",
    "[torchtitan-0.2, activation_checkpoint.py:51]",
    Sentence(
        "recompute of {} is of layers of plain PyTorch in 16 or 32 bits without adapters, and stands alone",
        module_names(_BY_OPERATOR),
    ),
    lambda w, b: (
        ((b.recompute_modules & int(_BY_OPERATOR)) != 0)
        & (
            every_row(b, bool(_not_plain(w)))
            | ((b.recompute_modules & ~int(_BY_OPERATOR)) != 0)
            | ((b.tp > 1) & every_row(b, w.model.mla is not None))
        )
    ),
    lambda w, s: (
        Sentence("recompute of {}: {} stands alone", module_names(s.recompute_modules), module_names(_BY_OPERATOR))
        if not (why := _not_plain(w) or _of_latents(s))
        else Sentence("recompute of {}: {}", module_names(_BY_OPERATOR), why)
    ),
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
    return Sentence(
        "recompute layers_per_stage has {} entries from {} to {}; it takes one a stage (pp {}), from 0 to {}",
        len(plan),
        min(plan, default=0),
        max(plan, default=0),
        s.pp,
        workload.model.num_layers,
    )


RECOMPUTE_PLAN = Rule(
    "recompute_plan",
    "[mindformers-1.5, Offset_Recompute.md]",
    Sentence("recompute layers_per_stage has one entry a pipeline rank"),
    _recompute_plan,
    _recompute_plan_sentence,
)


BESIDE_TENSORS = Feature.SWAP_ATTENTION | Feature.MOE_ZERO_MEMORY
# Modules that layers may recompute beside a plan that only swaps.
BESIDE_SWAPS = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT


def _tensor_plan_alone(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.tensor_plan_index >= 0
    if not given.any():
        return given
    by_plan = np.array([_repeated_beside(plan) for plan in batch.tensor_plans], dtype=np.int64)
    allowed = by_plan[batch.tensor_plan_index]
    beside = (batch.recompute == Recompute.SELECTIVE) & ((batch.recompute_modules & ~allowed) == 0)
    mask: Mask = given & (((batch.recompute != Recompute.NONE) & ~beside) | batch.has(BESIDE_TENSORS))
    return mask


def _repeated_beside(plan: TensorPlan) -> int:
    """The modules that layers may recompute beside the plan: none if it recomputes, else those of which it swaps nothing."""
    again, moved = dropped(plan)
    swapped = RecomputeModule(0)
    for tensor, entry in TENSORS.items():
        swapped |= entry.module if tensor in moved else RecomputeModule(0)
    return 0 if again else int(BESIDE_SWAPS & ~swapped)


TENSOR_PLAN_ALONE = Rule(
    "tensor_plan_alone",
    "[pangu-ultra-moe-2; megatron-0.19, fine_grained_activation_offloading.md]",
    Sentence(
        "tensor_plan says alone what layers do not keep: no swap_attention, no moe_zero_memory, and no recompute but that of "
        "layernorm and mlp_act beside a plan that swaps other tensors alone"
    ),
    _tensor_plan_alone,
    lambda w, s: Sentence(
        "tensor_plan with recompute {} and {}: it says alone what layers do not keep",
        s.recompute.label,
        joined(" and ", (str(f.name).lower() for f in s.features & BESIDE_TENSORS)) or Sentence("no swap"),
    ),
)


def _tensor_plan(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.tensor_plan_index >= 0
    kinds = len(workload.model.layer_kinds())
    for number, plan in enumerate(batch.tensor_plans):
        rows = batch.tensor_plan_index == number
        again, _ = dropped(plan)
        stages = [stage for row in plan for stage in row]
        both = any(choice.recompute & choice.swap for choice in choices_of(plan))
        cells = [choices for stage in stages for choices in stage]
        shared = all(choices and bool(share.num_layers) == (share is not choices[-1]) for choices in cells for share in choices)
        wrong = bool(again & ~RECOMPUTABLE) or both or not shared or any(len(stage) != kinds for stage in stages)
        pp = len(plan[0]) if plan and len({len(row) for row in plan}) == 1 else 0
        given = np.where(rows, wrong | (batch.pp != pp) | (batch.vpp != len(plan)), given)
    return given


def _tensor_plan_sentence(workload: Workload, s: ParallelStrategy) -> str:
    plan = s.tensor_plan or ()
    again, moved = dropped(plan)
    lost = again & ~RECOMPUTABLE
    return Sentence(
        "tensor_plan has {} x {} virtual stages; it takes choices for each of vpp "
        "{} x pp {} and each kind of layer ({}), of tensors that are either computed "
        "again or moved"
        "{}"
        "{}",
        len(plan),
        max(map(len, plan), default=0),
        s.vpp,
        s.pp,
        len(workload.model.layer_kinds()),
        Sentence("; nothing computes {} again", joined(" and ", tensor_names(lost))) if lost else "",
        Sentence("; {} may be both on one stage", joined(" and ", tensor_names(again & moved))) if again & moved else "",
    )


TENSOR_PLAN = Rule(
    "tensor_plan",
    "[pangu-ultra-moe-2]",
    Sentence("tensor_plan has choices for each virtual stage and kind of layer, and computes again what a forward can"),
    _tensor_plan,
    _tensor_plan_sentence,
)


def dropped_names(s: ParallelStrategy) -> str:
    """Names of the tensors that a plan by tensor computes again or moves."""
    again, moved = dropped(s.tensor_plan or ())
    return joined(", ", tensor_names(again | moved))


def tensor_plan_rule(name: str, source: str, framework: str) -> Rule:
    """The rule of a framework that recomputes by module."""

    def sentence(workload: Workload, s: ParallelStrategy) -> str:
        return Sentence(
            "tensor_plan drops {} by virtual stage: {} takes modules, the same on all stages", dropped_names(s), framework
        )

    requirement = Sentence("recompute goes by module, the same on all stages, not by tensor")
    return Rule(name, source, requirement, lambda w, b: b.tensor_plan_index >= 0, sentence)


SWAP_OR_REUSE = one_of(
    Exclusive.MASTER_WEIGHTS,
    "swap_or_reuse",
    "[mindspeed, swap_optimizer_feature.py]",
    Sentence(
        "swap_optimizer and optimizer_cpu_offload move the master weights to the host, reuse_fp32_param keeps them in the "
        "weights: one of the three"
    ),
    lambda on, s: Sentence("{} each say where the master weights are: choose 1", on),
    gives_way=Feature.REUSE_FP32_PARAM,
)

REUSE_NEEDS_BF16 = SwitchRule(
    "reuse_needs_bf16",
    "[mindspeed, reuse_fp32_param.py]",
    Sentence("reuse_fp32_param splits FP32 into BF16 and a rest, so training is in bf16"),
    lambda w, b: b.has(Feature.REUSE_FP32_PARAM) & (w.training.precision != "bf16"),
    lambda w, s: Sentence("reuse_fp32_param splits FP32 weights into bf16 and a rest, and precision is {}", w.training.precision),
    subject=Feature.REUSE_FP32_PARAM,
    reason=lambda w, s: Sentence("it needs bf16"),
)


def _beyond_host(workload: Workload, batch: StrategyBatch) -> Mask:
    limit = workload.cluster.profile.host_memory_bytes
    return none_of(batch) if limit is None else host_bytes_of_node(workload, batch) > limit


HOST_MEMORY = Rule(
    "host_memory",
    "[megatron-0.19, hybrid_optimizer.py; mindspeed, swap-optimizer]",
    Sentence("optimizer states on the host (swap_optimizer, optimizer_cpu_offload) fit in the memory of a node"),
    _beyond_host,
    lambda w, s: Sentence(
        "optimizer states take {} of host memory on a node at their peak, and {} has {}",
        gibibytes(float(host_bytes_of_node(w, StrategyBatch.of([s]))[0])),
        w.cluster.profile.name,
        gibibytes(w.cluster.profile.host_memory_bytes or 0.0),
    ),
)

RULES = rules_in(globals())
