"""Rules of Megatron-LM core 0.12, and those that MindSpeed-LLM inherits from it."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.strategy import (
    Dispatcher,
    Feature,
    LayerLayout,
    ParallelStrategy,
    Recompute,
    RecomputeModule,
    Schedule,
    StrategyBatch,
)
from cost_models.shapes.workload import ModelShape, Workload
from frameworks.physics.memory import module_names
from frameworks.rule import (
    MEGATRON_FAMILY,
    MEGATRON_ONLY,
    Mask,
    Rule,
    effective_features,
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
    | Feature.TP_COMM_OVERLAP
    | Feature.OVERLAP_GRAD_REDUCE
    | Feature.OVERLAP_PARAM_GATHER
    | Feature.OVERLAP_P2P
    | Feature.GRAD_REDUCE_IN_BF16
    | Feature.MOE_GROUPED_GEMM
    | Feature.MOE_PERMUTE_FUSION
    | Feature.MOE_SHARED_EXPERT_OVERLAP
    | Feature.MOE_PAD_TO_CAPACITY
    | Feature.CUDA_GRAPH
)


def feature_names(features: Feature) -> str:
    """The names of a set of features, as run records spell them."""
    return ", ".join(str(f.name).lower() for f in Feature if f in features)


def every_row(batch: StrategyBatch, illegal: bool) -> Mask:
    """One verdict for the whole batch: the rule looks at the model alone."""
    return np.full(len(batch), illegal, dtype=np.bool_)


def offered_rule(name: str, targets: frozenset[str], source: str, framework: str, offered: Feature) -> Rule:
    """A framework has only the features of ``offered``."""
    missing = ~offered
    return Rule(
        name,
        targets,
        source,
        f"only features that {framework} has: {feature_names(offered)}",
        lambda w, b: has_effect(w, b, missing),
        lambda w, s: f"{framework} has no {feature_names(effective_features(w, s) & missing)}",
    )


def _has_empty_chunk(layout: LayerLayout, _model: ModelShape) -> bool:
    return min(map(min, layout)) == 0


def chunks_rule(name: str, targets: frozenset[str], source: str, requirement: str) -> Rule:
    """A framework whose virtual stages all hold a layer."""
    return Rule(
        name,
        targets,
        source,
        requirement,
        lambda w, b: layout_violates(w, b, _has_empty_chunk),
        lambda w, s: f"the layer_layout leaves a virtual stage with 0 layers (largest: {max(map(max, layout_of(w, s)))})",
    )


PRECISION = Rule(
    "megatron_precision",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "precision is bf16, fp16, fp8 or fp32",
    lambda w, b: every_row(b, w.training.precision not in ("bf16", "fp16", "fp8", "fp32")),
    lambda w, s: f"Megatron-LM 0.12 trains in bf16, fp16, fp8 or fp32, not {w.training.precision}",
)

SANDWICH_NORM = Rule(
    "megatron_sandwich_norm",
    MEGATRON_ONLY,
    "[megatron-0.12, gpt_layer_specs.py]",
    "a layer has 2 norms",
    lambda w, b: every_row(b, w.model.sandwich_norm),
    lambda w, s: f"{w.model.name} has 4 norms a layer (sandwich norm), and a layer of Megatron-LM 0.12 has 2",
)

FEATURES = offered_rule("megatron_features", MEGATRON_ONLY, "[megatron-0.12, arguments.py]", "Megatron-LM 0.12", OFFERED)

SCHEDULES = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
SCHEDULE = schedule_rule("megatron_schedule", MEGATRON_ONLY, "[megatron-0.12, schedules.py]", "Megatron-LM 0.12", SCHEDULES)

QUERY_GROUPS = Rule(
    "megatron_query_groups",
    MEGATRON_FAMILY,
    "[megatron-0.12, transformer_config.py]",
    "tp divides the query groups (a later Megatron also takes multiples)",
    lambda w, b: none_of(b) if w.model.mla else w.model.num_query_groups % b.tp != 0,
    lambda w, s: f"tp {s.tp} does not divide num_query_groups {w.model.num_query_groups}",
)

SEQUENCE_PARALLEL_FOR_EXPERTS = Rule(
    "megatron_experts_need_sequence_parallel",
    MEGATRON_FAMILY,
    "[megatron-0.12, model_parallel_config.py]",
    "tp above 1 with ep above 1 needs sequence parallelism",
    lambda w, b: (b.tp > 1) & (b.ep > 1) & (b.sequence_parallel == 0),
    lambda w, s: f"tp {s.tp} with ep {s.ep} needs sequence_parallel",
)

EXPERTS_IN_FP16 = Rule(
    "megatron_experts_in_fp16",
    MEGATRON_FAMILY,
    "[megatron-0.12, arguments.py]",
    "no expert parallelism in fp16",
    lambda w, b: (b.ep > 1) if w.training.precision == "fp16" else none_of(b),
    lambda w, s: f"ep {s.ep} is not supported in fp16 training",
)

GROUPED_GEMM_PRECISION = Rule(
    "megatron_grouped_gemm_precision",
    MEGATRON_FAMILY,
    "[megatron-0.12, arguments.py]",
    "moe_grouped_gemm needs bf16 (fp8 runs on top of it)",
    lambda w, b: none_of(b) if w.training.precision in ("bf16", "fp8") else has_effect(w, b, Feature.MOE_GROUPED_GEMM),
    lambda w, s: f"moe_grouped_gemm needs bf16 and precision is {w.training.precision}",
)

CP_SEQUENCE = Rule(
    "megatron_cp_sequence",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "cp above 1 needs a sequence that 2 cp divides, whatever the algorithm",
    lambda w, b: (b.cp > 1) & (w.training.seq_length % (2 * b.cp) != 0),
    lambda w, s: f"seq_length {w.training.seq_length} is not a multiple of 2 x cp = {2 * s.cp}",
)

CP_MTP = Rule(
    "megatron_cp_mtp",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "multi-token prediction excludes context parallelism",
    lambda w, b: (b.cp > 1) if w.model.mtp_num_layers else none_of(b),
    lambda w, s: f"cp {s.cp} is not supported with {w.model.mtp_num_layers} multi-token-prediction layers",
)

P2P_OVERLAP = Rule(
    "megatron_p2p_overlap",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "virtual stages over pp 2 overlap their sends and receives (overlap_p2p)",
    lambda w, b: (b.vpp > 1) & (b.pp == 2) & ~b.has(Feature.OVERLAP_P2P),
    lambda w, s: f"vpp {s.vpp} with pp {s.pp} needs overlap_p2p, or pp above 2",
)

PARAM_GATHER = Rule(
    "megatron_param_gather",
    MEGATRON_FAMILY,
    "[megatron-0.12, arguments.py]",
    "overlap_param_gather needs overlap_grad_reduce",
    lambda w, b: (
        b.has(Feature.OVERLAP_PARAM_GATHER) & ~b.has(Feature.OVERLAP_GRAD_REDUCE) & (b.zero_stage > 0) & has_replicas(w, b)
    ),
    lambda w, s: f"overlap_param_gather with zero_stage {s.zero_stage} needs overlap_grad_reduce",
)

ZERO_PIPELINE = Rule(
    "megatron_zero_pipeline",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "zero_stage 2 and 3 (fully sharded data parallelism) run without a pipeline",
    lambda w, b: (b.zero_stage >= 2) & (b.pp > 1),
    lambda w, s: f"zero_stage {s.zero_stage} with pp {s.pp}: Megatron-LM shards gradients and weights without a pipeline only",
)

ZERO_SHARD = Rule(
    "megatron_zero_shard",
    MEGATRON_ONLY,
    "[megatron-0.12, distributed_data_parallel_config.py]",
    "optimizer_shard_size belongs to zero_stage 1",
    lambda w, b: (b.optimizer_shard_size > 0) & (b.zero_stage != 1),
    lambda w, s: f"optimizer_shard_size {s.optimizer_shard_size} belongs to zero_stage 1, and zero_stage is {s.zero_stage}",
)

TP_COMM_OVERLAP = Rule(
    "megatron_tp_comm_overlap",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "tp_comm_overlap needs sequence parallelism",
    lambda w, b: (b.sequence_parallel == 0) & has_effect(w, b, Feature.TP_COMM_OVERLAP),
    lambda w, s: f"tp_comm_overlap over tp {s.tp} needs sequence_parallel",
)

CUDA_GRAPH = Rule(
    "megatron_cuda_graph",
    MEGATRON_ONLY,
    "[megatron-0.12, transformer_config.py]",
    "cuda_graph excludes recompute",
    lambda w, b: b.has(Feature.CUDA_GRAPH) & (b.recompute != Recompute.NONE),
    lambda w, s: f"cuda_graph excludes recompute, which is {s.recompute.label}",
)

SHARED_EXPERT_OVERLAP = Rule(
    "megatron_shared_expert_overlap",
    MEGATRON_FAMILY,
    "[megatron-0.12, transformer_config.py]",
    "moe_shared_expert_overlap needs shared experts and the all-to-all dispatcher",
    lambda w, b: (
        has_effect(w, b, Feature.MOE_SHARED_EXPERT_OVERLAP)
        & ((b.dispatcher != Dispatcher.ALLTOALL) | (w.model.moe is None or w.model.moe.num_shared_experts == 0))
    ),
    lambda w, s: (
        f"moe_shared_expert_overlap needs shared experts ({w.model.name} has "
        f"{w.model.moe.num_shared_experts if w.model.moe else 0}) and moe_dispatcher alltoall (it is {s.dispatcher.label})"
    ),
)

DISPATCHER = Rule(
    "megatron_dispatcher",
    MEGATRON_ONLY,
    "[megatron-0.12, token_dispatcher.py]",
    "experts are reached by allgather, alltoall or two_level (DeepEP)",
    lambda w, b: (b.dispatcher == Dispatcher.HIERARCHICAL) & (b.ep * b.etp > 1),
    lambda w, s: f"Megatron-LM 0.12 has no {s.dispatcher.label} dispatch over ep {s.ep}: allgather, alltoall or two_level",
)

DEEPEP_CAPACITY = Rule(
    "megatron_deepep_capacity",
    MEGATRON_ONLY,
    "[megatron-0.12, transformer_config.py]",
    "two_level dispatch (DeepEP) excludes moe_pad_to_capacity",
    lambda w, b: (b.dispatcher == Dispatcher.TWO_LEVEL) & has_effect(w, b, Feature.MOE_PAD_TO_CAPACITY),
    lambda w, s: f"moe_dispatcher {s.dispatcher.label} over ep {s.ep} excludes moe_pad_to_capacity",
)

DEEPEP_DOMAIN = 8  # devices that DeepEP's kernels reach over NVLink

DEEPEP_DEVICES = Rule(
    "megatron_deepep_devices",
    MEGATRON_ONLY,
    "[deepep, README; megatron-0.12, fused_a2a.py]",
    "two_level dispatch (DeepEP) runs on NVIDIA devices with NVLink inside nodes of up to 8",
    lambda w, b: (
        (b.dispatcher == Dispatcher.TWO_LEVEL)
        & (b.ep * b.etp > 1)
        & (w.cluster.profile.family != "nvidia" or expert_domain_devices(w.cluster) > DEEPEP_DOMAIN)
    ),
    lambda w, s: (
        f"moe_dispatcher {s.dispatcher.label} over ep {s.ep} is DeepEP, which runs on NVIDIA devices in NVLink domains of up to "
        f"{DEEPEP_DOMAIN}; {w.cluster.profile.name} is of family {w.cluster.profile.family}, in domains of "
        f"{expert_domain_devices(w.cluster)}"
    ),
)


def _activation_recompute(workload: Workload, batch: StrategyBatch) -> Mask:
    mask: Mask = (batch.recompute_modules & int(RecomputeModule.MLP_ACT)) != 0
    return mask if workload.model.moe is None else mask & ~batch.has(Feature.MOE_GROUPED_GEMM)


ACTIVATION_RECOMPUTE = Rule(
    "megatron_activation_recompute",
    MEGATRON_ONLY,
    "[megatron-0.12, transformer_config.py]",
    "mlp_act is recomputed in experts with moe_grouped_gemm only",
    _activation_recompute,
    lambda w, s: (
        f"mlp_act recompute works in experts with moe_grouped_gemm only; {w.model.name} has "
        f"{w.model.moe.num_experts if w.model.moe else 0} experts"
    ),
)


def uneven_inside(layout: LayerLayout, _model: ModelShape) -> bool:
    """Whether ranks between the first and the last differ, or chunks of one rank do: what Megatron 0.12 cannot build."""
    stages = [{row[i] for row in layout} for i in range(len(layout[0]))]
    if any(len(counts) > 1 or 0 in counts for counts in stages):
        return True
    return len({min(counts) for counts in stages[1:-1]}) > 1


def _stages_sentence(workload: Workload, s: ParallelStrategy) -> str:
    layout = layout_of(workload, s)
    ranks = [sum(row[i] for row in layout) for i in range(len(layout[0]))]
    middle = ranks[1:-1] or ranks
    return (
        f"{workload.model.num_layers} layers over pp {s.pp} and vpp {s.vpp} put {ranks[0]} on the first rank, "
        f"{min(middle)} to {max(middle)} on the middle ones and {ranks[-1]} on the last, in chunks of {min(map(min, layout))} to "
        f"{max(map(max, layout))}; Megatron-LM 0.12 needs equal middle ranks and equal chunks on a rank"
    )


STAGES = Rule(
    "megatron_stages",
    MEGATRON_ONLY,
    "[megatron-0.12, transformer_config.py]",
    "all pipeline ranks but the first and the last hold equally many layers, and a rank's chunks are equal",
    lambda w, b: layout_violates(w, b, uneven_inside),
    _stages_sentence,
)

RECOMPUTE_MIX = Rule(
    "megatron_recompute_mix",
    MEGATRON_ONLY,
    "[megatron-0.12, transformer_config.py]",
    "recompute is full or by module, not both",
    lambda w, b: (b.recompute == Recompute.FULL) & (b.recompute_modules != 0),
    lambda w, s: f"full recompute together with {module_names(s.recompute_modules)}: Megatron-LM takes one granularity",
)

RECOMPUTE_PLAN = Rule(
    "megatron_recompute_plan",
    MEGATRON_ONLY,
    "[megatron-0.12, arguments.py]",
    "recompute has one number of layers for all stages",
    lambda w, b: b.recompute_plan_index >= 0,
    lambda w, s: (
        f"recompute layers_per_stage with {len(s.recompute_layers_per_stage or ())} entries: "
        "Megatron takes one number of layers for all stages"
    ),
)

RULES = (
    PRECISION,
    SANDWICH_NORM,
    FEATURES,
    SCHEDULE,
    QUERY_GROUPS,
    SEQUENCE_PARALLEL_FOR_EXPERTS,
    EXPERTS_IN_FP16,
    GROUPED_GEMM_PRECISION,
    CP_SEQUENCE,
    CP_MTP,
    STAGES,
    P2P_OVERLAP,
    PARAM_GATHER,
    ZERO_PIPELINE,
    ZERO_SHARD,
    TP_COMM_OVERLAP,
    CUDA_GRAPH,
    DISPATCHER,
    DEEPEP_DEVICES,
    DEEPEP_CAPACITY,
    SHARED_EXPERT_OVERLAP,
    ACTIVATION_RECOMPUTE,
    RECOMPUTE_MIX,
    RECOMPUTE_PLAN,
)
