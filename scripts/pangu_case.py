"""The published layout of Pangu Ultra MoE 718B, priced and searched: the numbers of the case study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.constants import CONSTANTS, Constants
from cost_models.shapes.flops import model_flops_per_token
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from search.explanation import DEFAULT_PLACEMENT
from search.lattice import search
from search.limits import limits_from_mapping
from search.placement.placer import Placer
from search.plan import DeploymentPlan
from search.result import SearchResult
from search.space import search_space

JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144, "precision": "bf16"},
}
STRUCTURE = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32}
STACK = ("moe_comm_overlap",)  # Adaptive Pipe, on top of the hierarchical dispatcher
DISPATCHERS = ("alltoall", "allgather", "two_level", "hierarchical")
ON_ASCEND = ("alltoall", "allgather", "hierarchical")  # dispatchers that some published stack runs on Ascend
NEARBY: dict[str, Any] = {  # the part of the lattice that is searched for every variation of the job
    "tp": [4, 8],
    "pp": {"min": 4, "max": 32},
    "ep": [8, 16, 32, 64],
    "cp": 1,
    "micro_batch_size": [1, 2],
    "moe_dispatcher": list(ON_ASCEND),
}
LOOPED: dict[str, Any] = {"schedule": ["interleaved-1f1b"]}  # the schedule of Pangu's stack, with and without merged pairs
FIRST_SYSTEM: dict[str, Any] = {  # no switch that not every strategy has
    **LOOPED,
    "moe_dispatcher": ["alltoall"],
    "moe_comm_overlap": False,
    "swap_attention": False,
}
FIRST_SYSTEM["forbid"] = [
    name for feature in Feature if feature not in DEFAULT_FEATURES and (name := str(feature.name).lower()) not in FIRST_SYSTEM
]
WITHIN_STRUCTURE: dict[str, Any] = {
    **{name: [value] for name, value in STRUCTURE.items()},
    "cp": [1],
    "micro_batch_size": [1, 2],
    "moe_dispatcher": list(ON_ASCEND),
    "swap_attention": [False, True],
}
AS_PUBLISHED: dict[str, Any] = {
    **WITHIN_STRUCTURE,
    **LOOPED,
    "micro_batch_size": [2],
    "moe_dispatcher": ["hierarchical"],
    "moe_comm_overlap": True,
}
YEAR_OF_PUBLICATION = 2025.0
MODES = (
    "none",
    "layernorm+mlp_act",
    "layernorm+mlp_act+mla_up_proj",
    "layernorm+mla_up_proj+mlp+moe",
    "block:1",
    "full",
)
SWAPS: dict[str, list[str]] = {
    "no swap": [],
    "optimizer": ["swap_optimizer"],
    "attention": ["swap_attention"],
    "experts": ["moe_zero_memory"],
}
EXPERT_DEGREES = (8, 16, 32, 64, 128)
FLAT_LOAD_FACTOR = 1.1  # one load for every degree, as it was assumed before loads were measured
BATCHES = (3072, 6144, 12288)
SEQUENCES = (4096, 8192)
TOKENS_PER_S = {6144: 1.46e6, 4096: 0.61e6}
MFU_FRACTION = {6144: 0.300, 4096: 0.189}
LATER_MFU_FRACTION = 0.41
STATED_PEAK_FLOPS_PER_S = 256e12  # per accelerator, by the report on Pangu Pro MoE


@cache
def workload_of(num_devices: int = 6144, seq_length: int = 8192, global_batch_size: int = 6144) -> Workload:
    """The job on other devices, or with another batch."""
    training = {**JOB["training"], "seq_length": seq_length, "global_batch_size": global_batch_size}
    return parse_job({**JOB, "cluster": {**JOB["cluster"], "num_devices": num_devices}, "training": training}).workload


def published(
    recompute: str, features: Sequence[str] = STACK, *, micro_batch_size: int = 2, dispatcher: str = "hierarchical"
) -> ParallelStrategy:
    """The published structure under one choice of what was not published, read as a user's job is."""
    section = {**STRUCTURE, "micro_batch_size": micro_batch_size, "moe_dispatcher": dispatcher, "recompute": recompute}
    strategy = parse_job({**JOB, "strategy": section}).strategy
    assert strategy is not None
    for name in features:
        strategy = replace(strategy, features=strategy.features | Feature[name.upper()])
    return strategy


def searched(workload: Workload, limits: Mapping[str, Any], top: int = 5, constants: Constants | None = None) -> SearchResult:
    """The best plans within ``limits``, the fastest first, proved best at the simulated fidelity."""
    space = search_space(workload, limits_from_mapping(limits))
    return search(workload, space, constants or constants_for(workload), top=top)


def best_published(workload: Workload, constants: Constants | None = None) -> DeploymentPlan:
    """The published layout, micro batch, dispatcher and overlap with what was not published as it is fastest."""
    return searched(workload, AS_PUBLISHED, 1, constants).plans[0]


def as_usual(strategy: ParallelStrategy) -> ParallelStrategy:
    """The same with its layers where they lie unless told."""
    return replace(strategy, **DEFAULT_PLACEMENT)


def placed(workload: Workload, strategies: Sequence[ParallelStrategy]) -> list[ParallelStrategy]:
    """Each with its layers where the pipeline runs fastest, if any such placement fits."""
    return Placer(workload).best(constants_for(workload), strategies)


def best_of_degree(workload: Workload, ep: int) -> DeploymentPlan | None:
    """The best setting of the published structure over other numbers of expert ranks, if one fits."""
    found = searched(workload, {**WITHIN_STRUCTURE, **LOOPED, "ep": [ep]}, top=1)
    return found.plans[0] if found.plans else None


@cache
def best_nearby(num_devices: int, seq_length: int, global_batch_size: int) -> DeploymentPlan:
    """The best plan of the neighbourhood; on fewer devices under what the first system had."""
    limits = NEARBY if num_devices == max(TOKENS_PER_S) else {**NEARBY, **FIRST_SYSTEM}
    return searched(workload_of(num_devices, seq_length, global_batch_size), limits, top=1).plans[0]


@cache
def best_of_structure(num_devices: int, seq_length: int, global_batch_size: int) -> DeploymentPlan | None:
    """The best setting of the published structure, under the same limits, if one fits."""
    ours = LOOPED if num_devices == max(TOKENS_PER_S) else FIRST_SYSTEM
    found = searched(workload_of(num_devices, seq_length, global_batch_size), {**WITHIN_STRUCTURE, **ours}, top=1)
    return found.plans[0] if found.plans else None


@dataclass(frozen=True)
class WhatIf:
    """One thing that the estimate leaves out, as a changed input."""

    name: str
    workload: Workload
    constants: Constants


def parallel_streams(workload: Workload) -> Workload:
    """The same cluster with its network's tiers at work at once."""
    profile = replace(workload.cluster.profile, sequential_tiers=False)
    return replace(workload, cluster=replace(workload.cluster, profile=profile))


def with_expert_load(workload: Workload, factor: float) -> Workload:
    """The same job with one load of the fullest expert rank for every degree."""
    return replace(workload, training=replace(workload.training, expert_load_factor=factor, expert_spread=None))


def of_year(workload: Workload, year: float) -> Workload:
    """The same job with software of that year."""
    return replace(workload, software=replace(workload.software, year=year))


def what_ifs(workload: Workload) -> list[WhatIf]:
    """Mechanisms that are published for Pangu's stack and that the estimate lacks or assumes away, one at a time, then all."""
    constants = constants_for(workload)
    gpu_cross_entropy = next(c.gpu for c in CONSTANTS if c.name == "cross_entropy_bytes")
    fused = {"cross_entropy_bytes": min(constants.cross_entropy_bytes, gpu_cross_entropy)}
    operators = {
        "matmul_fraction": min(1.0, 1.1 * constants.matmul_fraction),
        "attention_forward_fraction": 1.5 * constants.attention_forward_fraction,
        "attention_backward_fraction": 1.3 / 1.5 * constants.attention_backward_fraction,
    }
    quiet_host = {"host_moe_sync_s": 0.0, "host_micro_batch_s": 0.0}
    unhindered = {"hidden_stretch_fraction": 0.0}
    streams = parallel_streams(workload)
    balanced = with_expert_load(workload, 1.0)
    profile = workload.cluster.profile
    roomy_profile = replace(profile, usable_hbm_bytes=2.0 * profile.usable_hbm_bytes)
    roomy = replace(workload, cluster=replace(workload.cluster, profile=roomy_profile))
    every = constants.with_values({**fused, **operators, **quiet_host, **unhindered})
    together = replace(balanced, cluster=streams.cluster)
    roomy_together = replace(together, cluster=parallel_streams(roomy).cluster)
    return [
        WhatIf("as estimated", workload, constants),
        WhatIf("tiers in parallel streams", streams, constants),
        WhatIf("hidden communication slows no compute", workload, constants.with_values(unhindered)),
        WhatIf("experts perfectly balanced", balanced, constants),
        WhatIf("cross-entropy as lean as on GPUs", workload, constants.with_values(fused)),
        WhatIf("faster matmul and attention", workload, constants.with_values(operators)),
        WhatIf("no host synchronisation", workload, constants.with_values(quiet_host)),
        WhatIf("twice the device memory", roomy, constants),
        WhatIf("all of these but the memory", together, every),
        WhatIf("all of these", roomy_together, every),
    ]


def flops_per_token(model: ModelShape, seq_length: int, mask: str) -> float:
    """Model FLOPs; under a full mask a token attends to twice as many as under a causal one."""
    return model_flops_per_token(model, seq_length * (2.0 if mask == "full" else 1.0))
