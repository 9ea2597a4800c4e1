"""Rules of MindSpeed-LLM on MindSpeed, beyond those it inherits from Megatron-LM."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.strategy import (
    Dispatcher,
    Feature,
    LayerLayout,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    RecomputeModule,
    Schedule,
    StrategyBatch,
)
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.megatron_lm.rules import chunks_rule, every_row, offered_rule
from frameworks.physics.memory import module_names
from frameworks.rule import (
    MINDSPEED_ONLY,
    Mask,
    Rule,
    has_effect,
    has_replicas,
    layout_of,
    layout_violates,
    none_of,
    schedule_rule,
)

OFFERED = (
    Feature.FLASH_ATTENTION
    | Feature.FUSED_NORM
    | Feature.FUSED_SWIGLU
    | Feature.FUSED_ROPE
    | Feature.MC2
    | Feature.COC
    | Feature.OVERLAP_GRAD_REDUCE
    | Feature.OVERLAP_PARAM_GATHER
    | Feature.OVERLAP_P2P
    | Feature.REUSE_FP32_PARAM
    | Feature.SWAP_OPTIMIZER
    | Feature.SWAP_ATTENTION
    | Feature.GRAD_REDUCE_IN_BF16
    | Feature.MOE_GROUPED_GEMM
    | Feature.MOE_PERMUTE_FUSION
    | Feature.MOE_PERMUTATION_ASYNC_COMM
    | Feature.MOE_ALLGATHER_OVERLAP_COMM
    | Feature.MOE_ALLTOALL_OVERLAP_COMM
    | Feature.MOE_COMM_OVERLAP
    | Feature.MOE_SHARED_EXPERT_OVERLAP
    | Feature.MOE_TP_EXTEND_EP
    | Feature.MOE_PAD_TO_CAPACITY
    | Feature.MOE_ZERO_MEMORY
    | Feature.CP_SEND_RECV_OVERLAP
    | Feature.TP_2D
    | Feature.DUALPIPEV_DW_DETACH
)

PRECISION = Rule(
    "mindspeed_precision",
    MINDSPEED_ONLY,
    "[megatron-0.12, arguments.py]",
    "precision is bf16, fp16 or fp32",
    lambda w, b: every_row(b, w.training.precision not in ("bf16", "fp16", "fp32")),
    lambda w, s: f"MindSpeed-LLM trains in bf16, fp16 or fp32 here, not {w.training.precision}",
)

FEATURES = offered_rule("mindspeed_features", MINDSPEED_ONLY, "[mindspeed, features_manager]", "MindSpeed-LLM", OFFERED)

SCHEDULES = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.DUALPIPE_V)
SCHEDULE = schedule_rule(
    "mindspeed_schedule", MINDSPEED_ONLY, "[mindspeed, features_manager/pipeline_parallel]", "MindSpeed-LLM", SCHEDULES
)

MOE_FREQUENCY = Rule(
    "mindspeed_moe_frequency",
    MINDSPEED_ONLY,
    "[mindspeed-llm, transformer_block.py]",
    "after the leading dense layers every layer is MoE",
    lambda w, b: every_row(b, w.model.moe is not None and w.model.moe.moe_layer_freq > 1),
    lambda w, s: (
        f"moe_layer_freq {w.model.moe.moe_layer_freq if w.model.moe else 1}: MindSpeed-LLM counts it from the first layer, "
        "which makes other layers MoE; only 1 means the same"
    ),
)

ZERO_STAGE = Rule(
    "mindspeed_zero_stage",
    MINDSPEED_ONLY,
    "[mindspeed-llm, features_manager]",
    "zero_stage is 0 or 1, over all data-parallel ranks",
    lambda w, b: (b.zero_stage > 1) | (b.optimizer_shard_size > 0),
    lambda w, s: (
        f"zero_stage {s.zero_stage} with optimizer_shard_size {s.optimizer_shard_size}: the Megatron back end of MindSpeed-LLM "
        "shards the optimizer (1) over all data-parallel ranks (0)"
    ),
)


CHUNKS = chunks_rule(
    "mindspeed_chunks", MINDSPEED_ONLY, "[mindspeed, noop_layers.py]", "no virtual stage consists of no-op layers alone"
)


def noop_positions(layout: LayerLayout) -> tuple[int, ...]:
    """Positions of the no-op layers, from 0, that fill every virtual stage to the same length, each at its end."""
    slots = max(map(max, layout))
    pp = len(layout[0])
    return tuple(
        (chunk * pp + stage) * slots + slot
        for chunk, row in enumerate(layout)
        for stage, layers in enumerate(row)
        for slot in range(layers, slots)
    )


def first_moe_position(layout: LayerLayout, model: ModelShape) -> int:
    """Position, no-op layers counted, of the first MoE layer: what ``--first-k-dense-replace`` takes."""
    noops = set(noop_positions(layout))
    total = max(map(max, layout)) * len(layout) * len(layout[0])
    real = [position for position in range(total) if position not in noops]
    dense = model.moe.num_leading_dense_layers if model.moe else model.num_layers
    return real[dense] if dense < len(real) else total


def _dense_stage(layout: LayerLayout, model: ModelShape) -> bool:
    if model.moe is None or model.moe.num_leading_dense_layers == 0 or len(layout[0]) == 1:
        return False
    return first_moe_position(layout, model) >= max(map(max, layout)) * len(layout)


def _dense_stage_sentence(workload: Workload, s: ParallelStrategy) -> str:
    layout = layout_of(workload, s)
    return (
        f"the first MoE layer is at position {first_moe_position(layout, workload.model)} (no-op layers counted), "
        f"and with pp {s.pp} a rank holds {max(map(max, layout)) * len(layout)} layers: first_k_dense_replace must be below that"
    )


DENSE_STAGE = Rule(
    "mindspeed_dense_stage",
    MINDSPEED_ONLY,
    "[mindspeed-llm, transformer_block.py]",
    "the leading dense layers are fewer than the layers of a pipeline rank",
    lambda w, b: none_of(b) if w.model.moe is None else layout_violates(w, b, _dense_stage),
    _dense_stage_sentence,
)

MC2 = Rule(
    "mindspeed_mc2",
    MINDSPEED_ONLY,
    "[mindspeed, mc2.py]",
    "mc2 needs sequence parallelism and excludes MoE and coc",
    lambda w, b: has_effect(w, b, Feature.MC2) & ((b.sequence_parallel == 0) | b.has(Feature.COC) | (w.model.moe is not None)),
    lambda w, s: (
        f"mc2 with tp {s.tp} needs sequence_parallel (it is {str(s.sequence_parallel).lower()}) and a model without experts "
        f"({w.model.moe.num_experts if w.model.moe else 0}), and excludes coc"
    ),
)

COC = Rule(
    "mindspeed_coc",
    MINDSPEED_ONLY,
    "[mindspeed, locl_coc.py]",
    "coc excludes MoE",
    lambda w, b: none_of(b) if w.model.moe is None else has_effect(w, b, Feature.COC),
    lambda w, s: f"coc with tp {s.tp} excludes models with experts ({w.model.moe.num_experts if w.model.moe else 0})",
)

TP_2D = Rule(
    "mindspeed_tp_2d",
    MINDSPEED_ONLY,
    "[mindspeed, tp_2d.py]",
    "tp_2d excludes sequence parallelism, fused_norm, coc, expert and hybrid context parallelism, and splits an even tp",
    lambda w, b: (
        has_effect(w, b, Feature.TP_2D)
        & (
            (b.sequence_parallel != 0)
            | b.has(Feature.FUSED_NORM | Feature.COC)
            | (b.ep > 1)
            | ((b.ulysses_degree > 1) & (b.ulysses_degree < b.cp))
            | (b.tp % 2 != 0)
        )
    ),
    lambda w, s: (
        f"tp_2d with tp {s.tp}, ep {s.ep}, cp_algo {s.cp_algo.label} and sequence_parallel {str(s.sequence_parallel).lower()}: "
        "it needs an even tp and excludes sequence_parallel, fused_norm, coc, ep above 1 and hybrid context parallelism"
    ),
)

DISPATCHER = Rule(
    "mindspeed_dispatcher",
    MINDSPEED_ONLY,
    "[mindspeed, features_manager/moe; mindspeed-0.8, hierarchical-alltoallv.md]",
    "experts are reached by allgather or alltoall (hierarchical all-to-all exists in MindSpeed core_r0.8.0 only)",
    lambda w, b: (b.dispatcher >= Dispatcher.TWO_LEVEL) & (b.ep * b.etp > 1),
    lambda w, s: f"MindSpeed-LLM has no {s.dispatcher.label} dispatch over ep {s.ep}: allgather or alltoall",
)


def _capacity(workload: Workload, batch: StrategyBatch) -> Mask:
    moe = workload.model.moe
    if moe is None or moe.capacity_factor is None:
        return none_of(batch)
    mask: Mask = (batch.dispatcher == Dispatcher.ALLGATHER) & (batch.ep * batch.etp > 1)
    return mask


CAPACITY = Rule(
    "mindspeed_capacity",
    MINDSPEED_ONLY,
    "[mindspeed-llm, moe_router.py]",
    "a capacity factor excludes the allgather dispatcher",
    _capacity,
    lambda w, s: (
        f"capacity_factor {w.model.moe.capacity_factor if w.model.moe else None} excludes moe_dispatcher allgather over ep {s.ep}"
    ),
)

TP_EXTEND_EP = Rule(
    "mindspeed_tp_extend_ep",
    MINDSPEED_ONLY,
    "[mindspeed, tp_extend_ep.py]",
    "moe_tp_extend_ep needs alltoall, etp 1, ep a multiple of tp, moe_grouped_gemm, and no capacity factor",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_TP_EXTEND_EP)
        & (
            (b.dispatcher != Dispatcher.ALLTOALL)
            | (b.etp != 1)
            | (b.ep % b.tp != 0)
            | ~b.has(Feature.MOE_GROUPED_GEMM)
            | (w.model.moe is not None and w.model.moe.capacity_factor is not None)
        )
    ),
    lambda w, s: (
        f"moe_tp_extend_ep with ep {s.ep}, tp {s.tp}, etp {s.etp} and moe_dispatcher {s.dispatcher.label}: "
        "it needs ep a multiple of tp, etp 1, alltoall, moe_grouped_gemm and no capacity_factor"
    ),
)

ALLGATHER_OVERLAP = Rule(
    "mindspeed_allgather_overlap",
    MINDSPEED_ONLY,
    "[mindspeed, moe_allgather_overlap.py]",
    "moe_allgather_overlap_comm needs the allgather dispatcher and moe_grouped_gemm",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_ALLGATHER_OVERLAP_COMM)
        & ((b.dispatcher != Dispatcher.ALLGATHER) | ~b.has(Feature.MOE_GROUPED_GEMM))
    ),
    lambda w, s: (
        f"moe_allgather_overlap_comm over ep {s.ep} needs moe_dispatcher allgather (it is {s.dispatcher.label}) "
        "and moe_grouped_gemm"
    ),
)

ALLTOALL_OVERLAP = Rule(
    "mindspeed_alltoall_overlap",
    MINDSPEED_ONLY,
    "[mindspeed, moe_alltoall_overlap.py]",
    "moe_alltoall_overlap_comm needs the alltoall dispatcher and moe_grouped_gemm",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_ALLTOALL_OVERLAP_COMM)
        & ((b.dispatcher != Dispatcher.ALLTOALL) | ~b.has(Feature.MOE_GROUPED_GEMM))
    ),
    lambda w, s: (
        f"moe_alltoall_overlap_comm over ep {s.ep} needs moe_dispatcher alltoall (it is {s.dispatcher.label}) "
        "and moe_grouped_gemm"
    ),
)

FB_EXCLUDED = Feature.MOE_ALLTOALL_OVERLAP_COMM | Feature.SWAP_ATTENTION | Feature.MOE_TP_EXTEND_EP

FB_OVERLAP = Rule(
    "mindspeed_fb_overlap",
    MINDSPEED_ONLY,
    "[mindspeed, fb_overlap.py]",
    "moe_comm_overlap (moe-fb-overlap) needs ep above 1, etp 1, alltoall and moe_grouped_gemm, runs without a pipeline, with "
    "virtual stages or with dualpipev, and excludes overlap_grad_reduce, moe_alltoall_overlap_comm, swap_attention and "
    "moe_tp_extend_ep",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_COMM_OVERLAP)
        & (
            (b.ep == 1)
            | (b.etp != 1)
            | (b.dispatcher != Dispatcher.ALLTOALL)
            | (b.schedule == Schedule.ONE_F_ONE_B)
            | ~b.has(Feature.MOE_GROUPED_GEMM)
            | b.has(FB_EXCLUDED)
            | (b.has(Feature.OVERLAP_GRAD_REDUCE) & has_replicas(w, b))
        )
    ),
    lambda w, s: (
        f"moe_comm_overlap with ep {s.ep}, etp {s.etp}, moe_dispatcher {s.dispatcher.label} and schedule {s.schedule.label}: "
        "it needs ep above 1, etp 1, alltoall, moe_grouped_gemm, no pipeline, virtual stages or dualpipev, and excludes "
        "overlap_grad_reduce, moe_alltoall_overlap_comm, swap_attention and moe_tp_extend_ep"
    ),
)


DUALPIPEV = Rule(
    "mindspeed_dualpipev",
    MINDSPEED_ONLY,
    "[mindspeed, dualpipev_feature.py; mindspeed-llm, arguments.py]",
    "dualpipev comes with moe_comm_overlap, cp 1 and embeddings that are not tied",
    lambda w, b: (
        (b.schedule == Schedule.DUALPIPE_V)
        & (b.pp > 1)
        & ((b.cp > 1) | w.model.tied_embeddings | ~has_effect(w, b, Feature.MOE_COMM_OVERLAP))
    ),
    lambda w, s: (
        f"dualpipev with cp {s.cp} and ep {s.ep}: it comes with moe_comm_overlap over ep above 1, cp 1 and embeddings that are "
        f"not tied (those of {w.model.name} are{'' if w.model.tied_embeddings else ' not'})"
    ),
)


def _noop_before_last_chunk(layout: LayerLayout, _model: ModelShape) -> bool:
    slots = max(map(max, layout))
    return any(layers < slots for row in layout[:-1] for layers in row)


FB_NOOP = Rule(
    "mindspeed_fb_noop",
    MINDSPEED_ONLY,
    "[mindspeed, noop_layers; fb_overlap.py]",
    "with moe_comm_overlap and interleaved virtual stages, no-op layers sit in the last chunk only",
    lambda w, b: (
        (b.schedule == Schedule.INTERLEAVED)
        & has_effect(w, b, Feature.MOE_COMM_OVERLAP)
        & layout_violates(w, b, _noop_before_last_chunk)
        if w.model.moe is not None and b.has(Feature.MOE_COMM_OVERLAP).any()
        else none_of(b)
    ),
    lambda w, s: (
        f"moe_comm_overlap with vpp {s.vpp} takes no-op layers in the last chunk only, and {w.model.num_layers} layers over "
        f"pp {s.pp} leave them at positions {', '.join(map(str, noop_positions(layout_of(w, s))))}"
    ),
)

ZERO_MEMORY = Rule(
    "mindspeed_zero_memory",
    MINDSPEED_ONLY,
    "[mindspeed, moe_zero_memory.py; mindspeed-llm, arguments.py]",
    "moe_zero_memory needs moe_alltoall_overlap_comm or moe_comm_overlap, and excludes full recompute",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_ZERO_MEMORY)
        & (~has_effect(w, b, Feature.MOE_ALLTOALL_OVERLAP_COMM | Feature.MOE_COMM_OVERLAP) | (b.recompute == Recompute.FULL))
    ),
    lambda w, s: (
        f"moe_zero_memory over ep {s.ep} needs moe_alltoall_overlap_comm or moe_comm_overlap, and excludes full recompute "
        f"(recompute is {s.recompute.label})"
    ),
)

BY_LAYER = RecomputeModule.CORE_ATTN | RecomputeModule.MLP | RecomputeModule.MOE
BY_SWITCH = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT

RECOMPUTE_MIX = Rule(
    "mindspeed_recompute_mix",
    MINDSPEED_ONLY,
    "[mindspeed, features_manager/recompute; mindspeed-llm, arguments.py]",
    "full recompute is joined by layernorm, mlp_act and mla_up_proj only, which have switches of their own, and core_attn, mlp "
    "and moe exclude layernorm and mlp_act",
    lambda w, b: (
        ((b.recompute_modules & int(BY_LAYER)) != 0)
        & ((b.recompute == Recompute.FULL) | ((b.recompute_modules & int(BY_SWITCH)) != 0))
    ),
    lambda w, s: (
        f"full recompute together with {module_names(s.recompute_modules & BY_LAYER)}: MindSpeed-LLM takes one granularity"
        if s.recompute == Recompute.FULL
        else f"recompute of {module_names(s.recompute_modules & BY_LAYER)} together with "
        f"{module_names(s.recompute_modules & BY_SWITCH)}: MindSpeed-LLM takes modules or its switches, not both"
    ),
)


def _uneven_plan(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.recompute_plan_index >= 0
    if not given.any():
        return given
    uneven = np.array([len(set(plan)) > 1 for plan in batch.recompute_plans], dtype=np.bool_)
    mask: Mask = given & (
        uneven[batch.recompute_plan_index]
        | (batch.recompute_method == RecomputeMethod.UNIFORM)
        | (batch.schedule == Schedule.DUALPIPE_V)
    )
    return mask


RECOMPUTE_PLAN = Rule(
    "mindspeed_recompute_plan",
    MINDSPEED_ONLY,
    "[mindspeed, enable_recompute_layers_per_pp_rank.py]",
    "recompute layers_per_stage is the same number for every pipeline rank, by method block, and not with dualpipev",
    _uneven_plan,
    lambda w, s: (
        f"recompute layers_per_stage goes from {min(s.recompute_layers_per_stage or (0,))} to "
        f"{max(s.recompute_layers_per_stage or (0,))} with method {s.recompute_method.label} and schedule {s.schedule.label}: "
        "MindSpeed-LLM takes one number for all pipeline ranks, with method block, and for each chunk with dualpipev"
    ),
)

SWAP_OPTIMIZER = Rule(
    "mindspeed_swap_optimizer",
    MINDSPEED_ONLY,
    "[mindspeed, swap_optimizer_feature.py]",
    "swap_optimizer swaps the distributed optimizer: zero_stage 1",
    lambda w, b: b.has(Feature.SWAP_OPTIMIZER) & (b.zero_stage != 1),
    lambda w, s: f"swap_optimizer swaps the distributed optimizer (zero_stage 1), and zero_stage is {s.zero_stage}",
)

RULES = (
    PRECISION,
    FEATURES,
    SCHEDULE,
    MOE_FREQUENCY,
    ZERO_STAGE,
    CHUNKS,
    DENSE_STAGE,
    MC2,
    COC,
    TP_2D,
    DISPATCHER,
    CAPACITY,
    TP_EXTEND_EP,
    ALLGATHER_OVERLAP,
    ALLTOALL_OVERLAP,
    FB_OVERLAP,
    DUALPIPEV,
    FB_NOOP,
    ZERO_MEMORY,
    RECOMPUTE_MIX,
    RECOMPUTE_PLAN,
    SWAP_OPTIMIZER,
)
