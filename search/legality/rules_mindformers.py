"""Rules of MindFormers on MindSpore, releases 1.5 to 1.8."""

from __future__ import annotations

from cost_models.strategy import Dispatcher, Feature
from search.legality.rule import MINDFORMERS_ONLY, Rule
from search.legality.rules_megatron import every_row, offered_rule

OFFERED = (
    Feature.FLASH_ATTENTION
    | Feature.FUSED_NORM
    | Feature.FUSED_SWIGLU
    | Feature.FUSED_ROPE
    | Feature.REPLICATED_EMBEDDING
    | Feature.OVERLAP_GRAD_REDUCE
    | Feature.OVERLAP_PARAM_GATHER
    | Feature.OVERLAP_P2P
    | Feature.SWAP_OPTIMIZER
    | Feature.SWAP_ATTENTION
    | Feature.MOE_GROUPED_GEMM
    | Feature.MOE_PERMUTE_FUSION
    | Feature.MOE_SHARED_EXPERT_OVERLAP
    | Feature.MOE_PAD_TO_CAPACITY
    | Feature.FINE_GRAIN_INTERLEAVE
)

PRECISION = Rule(
    "mindformers_precision",
    MINDFORMERS_ONLY,
    "[mindformers-1.8, config_args.py]",
    "precision is bf16, fp16 or fp32",
    lambda w, b: every_row(b, w.training.precision not in ("bf16", "fp16", "fp32")),
    lambda w, s: f"MindFormers trains in bf16, fp16 or fp32, not {w.training.precision}",
)

FEATURES = offered_rule("mindformers_features", MINDFORMERS_ONLY, "[mindformers-1.8, config_args.py]", "MindFormers", OFFERED)

EXPERT_WORLD = Rule(
    "mindformers_expert_world",
    MINDFORMERS_ONLY,
    "[hyper-parallel, fast-tuner; mindformers-1.8, Parallel configuration]",
    "expert ranks come from dp and tp, not from cp: etp x ep divides dp x tp",
    lambda w, b: (b.dp * b.tp) % (b.ep * b.etp) != 0,
    lambda w, s: f"etp {s.etp} x ep {s.ep} = {s.etp * s.ep} does not divide dp {s.dp} x tp {s.tp} = {s.dp * s.tp}",
)

DISPATCHER = Rule(
    "mindformers_dispatcher",
    MINDFORMERS_ONLY,
    "[mindformers-1.8, token_dispatcher.py]",
    "experts are reached by allgather, alltoall or two_level (alltoall_deredundancy)",
    lambda w, b: (b.dispatcher == Dispatcher.HIERARCHICAL) & (b.ep * b.etp > 1),
    lambda w, s: f"MindFormers has no {s.dispatcher.label} dispatch over ep {s.ep}: allgather, alltoall or two_level",
)

DEREDUNDANCY = Rule(
    "mindformers_deredundancy",
    MINDFORMERS_ONLY,
    "[mindformers-1.8, parallelism configuration]",
    "two_level dispatch (alltoall_deredundancy) covers at least a node: ep is not below its devices",
    lambda w, b: (b.dispatcher == Dispatcher.TWO_LEVEL) & (b.ep > 1) & (b.ep < w.cluster.profile.devices_per_node),
    lambda w, s: f"two_level dispatch over ep {s.ep} is less than the {w.cluster.profile.devices_per_node} devices of a node",
)

RULES = (PRECISION, FEATURES, EXPERT_WORLD, DISPATCHER, DEREDUNDANCY)
