"""The published layout of Pangu Ultra MoE 718B, priced and searched: the numbers of the case study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.constants import Constants
from cost_models.shapes.flops import model_flops_per_token
from cost_models.shapes.software_options import HOST, OPTION_NAMES
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from search.exhaustive.lattice_search import search
from search.explain.explanation import DEFAULT_PLACEMENT
from search.placement.placer import Placer
from search.plans.plan import DeploymentPlan
from search.results.search_result import SearchResult
from search.session.request import SearchRequest
from search.space.limits import limits_from_mapping
from search.space.search_space import search_space

JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144, "precision": "bf16", "router_balance": "auxiliary-loss"},
}
STRUCTURE = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32}
STACK = ("moe_comm_overlap",)  # Adaptive Pipe, on top of the hierarchical dispatcher
DISPATCHERS = ("alltoall", "allgather", "two_level", "hierarchical")
ON_ASCEND = ("alltoall", "allgather", "hierarchical")  # dispatchers of published stacks on Ascend
NEARBY: dict[str, Any] = {  # the part of the lattice that every variation of the job searches
    "tp": [4, 8],
    "pp": {"min": 4, "max": 32},
    "ep": [8, 16, 32, 64],
    "cp": 1,
    "micro_batch_size": [1, 2],
    "moe_dispatcher": list(ON_ASCEND),
}
LOOPED: dict[str, Any] = {"schedule": ["interleaved-1f1b"]}  # the schedule of Pangu's stack, with and without merged pairs
FIRST_SYSTEM: dict[str, Any] = {  # only the switches that are on by default
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
FLAT_LOAD_FACTOR = 1.1  # one load for every degree, as assumed before loads were measured
BATCHES = (3072, 6144, 12288)
SEQUENCES = (4096, 8192)
TOKENS_PER_S = {6144: 1.46e6, 4096: 0.61e6}
MFU_FRACTION = {6144: 0.300, 4096: 0.189}
LATER_MFU_FRACTION = 0.41
STATED_PEAK_FLOPS_PER_S = 256e12  # peak per accelerator, as in the report on Pangu Pro MoE


@cache
def workload_of(num_devices: int = 6144, seq_length: int = 8192, global_batch_size: int = 6144) -> Workload:
    """The job on other devices, or with another batch."""
    training = {**JOB["training"], "seq_length": seq_length, "global_batch_size": global_batch_size}
    return parse_job({**JOB, "cluster": {**JOB["cluster"], "num_devices": num_devices}, "training": training}).workload


def published(
    recompute: str, features: Sequence[str] = STACK, *, micro_batch_size: int = 2, dispatcher: str = "hierarchical"
) -> ParallelStrategy:
    """The published structure with one choice of the unpublished settings, read like a user's job."""
    section = {**STRUCTURE, "micro_batch_size": micro_batch_size, "moe_dispatcher": dispatcher, "recompute": recompute}
    strategy = parse_job({**JOB, "strategy": section}).strategy
    assert strategy is not None
    for name in features:
        strategy = replace(strategy, features=strategy.features | Feature[name.upper()])
    return strategy


def searched(workload: Workload, limits: Mapping[str, Any], top: int = 5, constants: Constants | None = None) -> SearchResult:
    """The best plans within ``limits``, the fastest first; the order is proved at the simulated fidelity."""
    space = search_space(workload, limits_from_mapping(limits))
    return search(SearchRequest(workload, space, constants or constants_for(workload), top=top))


def best_published(workload: Workload, constants: Constants | None = None, *, tier_streams: bool = False) -> DeploymentPlan:
    """The published layout, micro batch, dispatcher and overlap, with the fastest unpublished settings."""
    return searched(workload, {**AS_PUBLISHED, "moe_tier_streams": tier_streams}, 1, constants).plans[0]


def as_usual(strategy: ParallelStrategy) -> ParallelStrategy:
    """Copy of the strategy with the default placement of layers."""
    return replace(strategy, **DEFAULT_PLACEMENT)


def placed(workload: Workload, strategies: Sequence[ParallelStrategy]) -> list[ParallelStrategy]:
    """Each strategy with the fastest placement of layers, if one fits."""
    return Placer(workload).best(constants_for(workload), strategies)


def best_of_degree(workload: Workload, ep: int) -> DeploymentPlan | None:
    """The best setting of the published structure over other numbers of expert ranks, if one fits."""
    found = searched(workload, {**WITHIN_STRUCTURE, **LOOPED, "ep": [ep]}, top=1)
    return found.plans[0] if found.plans else None


@cache
def best_nearby(num_devices: int, seq_length: int, global_batch_size: int) -> DeploymentPlan:
    """The best plan of the neighbourhood; on fewer devices with the settings of the first system."""
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
    """One mechanism that the estimate leaves out, as a changed input."""

    name: str
    workload: Workload
    constants: Constants
    tier_streams: bool = False


def with_tier_streams(strategy: ParallelStrategy) -> ParallelStrategy:
    """Copy of the strategy with a stream for each tier of a staged exchange."""
    return replace(strategy, features=strategy.features | Feature.MOE_TIER_STREAMS)


def with_options(workload: Workload, operators: Sequence[str] = (), host: Sequence[str] | None = None) -> Workload:
    """Copy of the job under a stack with these options."""
    software = replace(workload.software, operators=tuple(operators), host=None if host is None else tuple(host))
    return replace(workload, software=software)


def with_expert_load(workload: Workload, factor: float) -> Workload:
    """Copy of the job with one load of the fullest expert rank for every degree."""
    return replace(workload, training=replace(workload.training, expert_load_factor=factor, expert_spread=None))


def of_year(workload: Workload, year: float) -> Workload:
    """Copy of the job with software of that year."""
    return replace(workload, software=replace(workload.software, year=year))


OPERATOR_PACKS = ("flash-attention", "matmul", "vector", "accumulating-matmul")


def what_ifs(workload: Workload) -> list[WhatIf]:
    """Published mechanisms of Pangu's stack that the estimate lacks or assumes away, one at a time, then all."""
    quiet = OPTION_NAMES[HOST]
    unhindered = {"hidden_stretch_fraction": 0.0}
    balanced = with_expert_load(workload, 1.0)
    profile = replace(workload.cluster.profile, usable_hbm_bytes=2.0 * workload.cluster.profile.usable_hbm_bytes)
    roomy_cluster = replace(workload.cluster, profile=profile)
    together = with_options(balanced, OPERATOR_PACKS, quiet)

    def case(name: str, changed: Workload, values: Mapping[str, float] | None = None, *, tier_streams: bool = False) -> WhatIf:
        return WhatIf(name, changed, constants_for(changed).with_values(values or {}), tier_streams)

    return [
        case("as estimated", workload),
        case("tiers in streams of their own", workload, tier_streams=True),
        case("hidden communication slows no compute", workload, unhindered),
        case("experts perfectly balanced", balanced),
        case("operator packs", with_options(workload, OPERATOR_PACKS)),
        case("no host synchronisation", with_options(workload, (), quiet)),
        case("twice the device memory", replace(workload, cluster=roomy_cluster)),
        case("all of these but the memory", together, unhindered, tier_streams=True),
        case("all of these", replace(together, cluster=roomy_cluster), unhindered, tier_streams=True),
    ]


def flops_per_token(model: ModelShape, seq_length: int, mask: str) -> float:
    """Model FLOPs per token; with a full mask a token attends to twice as many tokens as with a causal one."""
    return model_flops_per_token(model, seq_length * (2.0 if mask == "full" else 1.0))
