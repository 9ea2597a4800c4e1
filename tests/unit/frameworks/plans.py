"""Legal plans of each framework, drawn from whole lattices, for the tests of launch files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, MoeShape, Software, Workload
from frameworks.legality import legal_mask
from frameworks.registry import BY_LABEL, parse_target
from frameworks.torchtitan.flavors import FLAVORS, FLAVORS_MAIN
from search.space.enumeration import Rejections, chunks
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace
from tests.unit.frameworks.legality_workloads import DENSE, MIXTURE, PANGU, job

MODES = (
    *("none", "full", "full:2", "block:1", "block:50%", "core_attn", "layernorm", "layernorm+mlp_act", "core_attn+layernorm"),
    *("mlp", "moe", "mlp+moe", "mla_up_proj", "mlp_act"),
)
BARE = DEFAULT_FEATURES & ~(Feature.FUSED_ROPE | Feature.FUSED_SWIGLU | Feature.OVERLAP_P2P | Feature.MOE_PERMUTE_FUSION)
QUIET = DEFAULT_FEATURES & ~(Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER)
MERGED = tuple(
    QUIET | Feature.MOE_COMM_OVERLAP | others
    for others in (Feature(0), Feature.DUALPIPEV_DW_DETACH, Feature.MOE_ZERO_MEMORY | Feature.SWAP_OPTIMIZER)
)
SWITCHES = {
    "megatron-lm": (
        DEFAULT_FEATURES,
        BARE,
        QUIET,
        DEFAULT_FEATURES | Feature.TP_COMM_OVERLAP | Feature.GRAD_REDUCE_IN_BF16,
        DEFAULT_FEATURES | Feature.MOE_SHARED_EXPERT_OVERLAP,
        DEFAULT_FEATURES | Feature.CUDA_GRAPH,
        DEFAULT_FEATURES | Feature.BF16_MOMENTS,
        DEFAULT_FEATURES | Feature.OPTIMIZER_CPU_OFFLOAD,
    ),
    "mindspeed-llm": (
        DEFAULT_FEATURES,
        BARE,
        QUIET | Feature.MOE_COMM_OVERLAP,
        QUIET | Feature.MOE_COMM_OVERLAP | Feature.MOE_ZERO_MEMORY,
        DEFAULT_FEATURES | Feature.MC2 | Feature.SWAP_OPTIMIZER,
        DEFAULT_FEATURES | Feature.COC | Feature.REUSE_FP32_PARAM | Feature.CP_SEND_RECV_OVERLAP,
        (DEFAULT_FEATURES & ~Feature.FUSED_NORM) | Feature.TP_2D | Feature.SWAP_ATTENTION,
        DEFAULT_FEATURES | Feature.MOE_ALLTOALL_OVERLAP_COMM | Feature.MOE_ZERO_MEMORY,
        DEFAULT_FEATURES | Feature.MOE_ALLGATHER_OVERLAP_COMM,
        DEFAULT_FEATURES | Feature.MOE_TP_EXTEND_EP | Feature.GRAD_REDUCE_IN_BF16,
    ),
    "mindformers": (
        DEFAULT_FEATURES,
        BARE,
        DEFAULT_FEATURES | Feature.FINE_GRAIN_INTERLEAVE,
        DEFAULT_FEATURES | Feature.SWAP_ATTENTION | Feature.MOE_SHARED_EXPERT_OVERLAP,
    ),
}
MODELS = {
    "dense": DENSE,
    "uneven": replace(DENSE, num_layers=30),
    "tall": replace(DENSE, num_layers=23, gated_linear_unit=False, learned_positions=True),
    "mixture": MIXTURE,
    "capacity": replace(MIXTURE, moe=replace(MIXTURE.moe, capacity_factor=1.5, top_k=1)),
    "latent": replace(
        PANGU, num_layers=13, sandwich_norm=False, moe=replace(PANGU.moe, num_experts=32, num_groups=8, group_topk=4)
    ),
}
# MindFormers has a class for each model that it trains: what makes one of its kind of each of these.
OF_A_CLASS: dict[str, dict[str, Any]] = {name: {"qk_layernorm": True} for name in MODELS} | {
    "tall": {"qk_layernorm": True, "gated_linear_unit": True, "learned_positions": False},
    "capacity": {"qk_layernorm": True, "moe": replace(MIXTURE.moe, top_k=1)},
    "latent": {},
}
# torchtitan has flavors: one of a kind like each of these. Those of Qwen3 have no pipelines.
OF_A_FLAVOR = {
    "dense": ("llama3", "8B"),
    "uneven": ("llama3", "405B"),
    "tall": ("llama3", "70B"),
    "mixture": ("qwen3", "30B-A3B"),
    "capacity": ("llama4", "17bx128e"),
    "latent": ("deepseek_v3", "16B"),
}
OF_MAIN = {**OF_A_FLAVOR, "capacity": ("qwen3", "235B-A22B")}  # main has no Llama 4
# MindSpeed-LLM's FSDP2 has types of models: one of a type like each of these.
OF_A_TYPE: dict[str, dict[str, Any]] = {
    "dense": {"constants": ModelConstants("qwen3"), "qk_layernorm": True},
    "uneven": {"constants": ModelConstants("llama")},
    "tall": {"constants": ModelConstants("qwen2"), "gated_linear_unit": True, "learned_positions": False, "attention_bias": True},
    "mixture": {"constants": ModelConstants("qwen3_moe"), "moe": MoeShape(64, 6, 1408)},
    "capacity": {"constants": ModelConstants("qwen3_moe"), "moe": MoeShape(64, 1, 1408)},
    "latent": {"constants": ModelConstants("qwen3_moe"), "mla": None, "mtp_num_layers": 0, "moe": MoeShape(32, 8, 2048)},
}
MOST_PLANS_A_CHUNK = 300


def shape(framework: str, model: str) -> ModelShape:
    """The model, as the framework, or one release of it, trains it."""
    if framework == "torchtitan@2026.08":
        return FLAVORS_MAIN[OF_MAIN[model]].model
    framework = framework.partition("@")[0]
    if framework == "torchtitan":
        return FLAVORS[OF_A_FLAVOR[model]].model
    if framework == "mindspeed-llm-fsdp2":
        return replace(MODELS[model], **OF_A_TYPE[model])
    return replace(MODELS[model], **OF_A_CLASS[model]) if framework == "mindformers" else MODELS[model]


def workload(framework: str, model: str) -> Workload:
    """Thirty-two devices that the framework, or one release of it, runs on."""
    target = parse_target(framework)
    made = job(shape(target.label, model), 32, family=target.families[0])
    if target.name == "torchtitan":  # its experts need a GPU with Hopper's instructions
        profile = replace(made.cluster.profile, compute_capability=9.0)
        made = replace(made, cluster=replace(made.cluster, profile=profile))
    compiled = target.torch_compile
    plain = target.priced_as == "mindspeed-llm-fsdp2"
    software = Software(
        target.priced_as, target=target.label, torch_compile=compiled, plain_cross_entropy=plain, compiled_loss=compiled
    )
    software = replace(software, loss_chunks=target.loss_chunks)
    return replace(made, software=software)


@cache
def legal_plans(framework: str, model: str) -> tuple[ParallelStrategy, ...]:
    """Legal strategies, thinned evenly over the whole lattice."""
    record = BY_LABEL[parse_target(framework).label]
    offered = record.table.offered
    switches = SWITCHES.get(record.name) or tuple(dict.fromkeys(each & offered for all_ in SWITCHES.values() for each in all_))
    space = SearchSpace(
        tp=(1, 2),
        pp=(1, 2, 4),
        vpp=(1, 2),
        cp=(1, 4),
        ep=(1, 8),
        etp=(1, 2),
        micro_batch_size=(1, 2),
        sequence_parallel=(False, True),
        cp_algo=(CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID),
        schedule=tuple(Schedule),
        microbatch_group_size_per_vp_stage=(0, 8),
        dispatcher=(Dispatcher.ALLGATHER, Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL),
        recompute=tuple(recompute_mode(name) for name in MODES),
        zero_stage=(0, 1, 2, 3),
        features=switches,
        dualpipev_features=MERGED if Feature.MOE_COMM_OVERLAP in offered else switches,
        interleaved_features=switches,
    )
    made = workload(framework, model)
    plans: list[ParallelStrategy] = []
    for chunk in chunks(made, space, Rejections()):
        drawn = np.random.default_rng(0).permutation(len(chunk.batch))[: len(chunk.batch) // 7]
        thinned = chunk.batch.take(drawn)
        legal = thinned.take(legal_mask(made, thinned))
        plans += [legal.row(i) for i in range(min(len(legal), MOST_PLANS_A_CHUNK))]
    return tuple(plans)
