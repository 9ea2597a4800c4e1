"""The published layout of Pangu Ultra MoE 718B, priced and ranked: the numbers of the case study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from app.job import parse_job
from app.pricing import constants_for
from cost_models.constants import CONSTANTS, Constants
from cost_models.flops import model_flops_per_token
from cost_models.step import estimate
from cost_models.strategy import Feature, ParallelStrategy, StrategyBatch
from cost_models.workload import ModelShape, Workload
from search.lattice import LatticeSearch
from search.limits import limits_from_mapping
from search.plan import estimates_to_mappings
from search.ranking import RankedStrategy
from search.space import search_space

JOB: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144, "precision": "bf16"},
}
STRUCTURE = {"tp": 8, "pp": 16, "vpp": 2, "ep": 32}
ON_ASCEND = ("alltoall", "allgather", "hierarchical")  # dispatchers that some published stack runs on Ascend
NEARBY: dict[str, Any] = {  # the part of the lattice that is searched again for every variation of the job
    "tp": [4, 8],
    "pp": {"min": 4, "max": 32},
    "ep": [8, 16, 32, 64],
    "cp": 1,
    "micro_batch_size": [1, 2],
    "dispatcher": list(ON_ASCEND),
}
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
    "both": ["swap_optimizer", "swap_attention"],
}
BATCHES = (3072, 6144, 12288)
SEQUENCES = (4096, 8192)
MANY = 100_000  # more structures than there are
TOKENS_PER_S = {6144: 1.46e6, 4096: 0.61e6}
MFU_FRACTION = {6144: 0.300, 4096: 0.189}
LATER_MFU_FRACTION = 0.41
HIDDEN_FRACTION = 0.98  # of expert communication, by the coverage of the later system
STATED_PEAK_FLOPS_PER_S = 256e12  # per accelerator, by the report on Pangu Pro MoE


@cache
def workload_of(num_devices: int = 6144, seq_length: int = 8192, global_batch_size: int = 6144) -> Workload:
    """The job on other devices, or with another batch."""
    training = {**JOB["training"], "seq_length": seq_length, "global_batch_size": global_batch_size}
    return parse_job({**JOB, "cluster": {**JOB["cluster"], "num_devices": num_devices}, "training": training}).workload


def published(recompute: str, features: Sequence[str], *, micro_batch_size: int, dispatcher: str) -> ParallelStrategy:
    """The published structure under one choice of what was not published, read as a user's job is."""
    section = {**STRUCTURE, "micro_batch_size": micro_batch_size, "moe_dispatcher": dispatcher, "recompute": recompute}
    strategy = parse_job({**JOB, "strategy": section}).strategy
    assert strategy is not None
    for name in features:
        strategy = replace(strategy, features=strategy.features | Feature[name.upper()])
    return strategy


def priced(workload: Workload, strategies: Sequence[ParallelStrategy]) -> list[dict[str, Any]]:
    """Estimates with their parts, in the same order."""
    found = estimate(workload, StrategyBatch.of(strategies), constants_for(workload), breakdown=True)
    return estimates_to_mappings(workload, found)


@dataclass(frozen=True)
class Ranking:
    """The best of every structure that fits, best first, and how many strategies of the lattice were tried."""

    plans: tuple[RankedStrategy, ...]
    enumerated: int
    legal: int
    fits: int

    @property
    def place(self) -> int | None:
        """Index of the published structure, if it fits."""
        wanted = {**STRUCTURE, "cp": 1}
        for index, plan in enumerate(self.plans):
            if all(getattr(plan.strategy, name) == value for name, value in wanted.items()):
                return index
        return None

    @property
    def published(self) -> RankedStrategy | None:
        return None if self.place is None else self.plans[self.place]


def ranked(workload: Workload, constants: Constants, limits: Mapping[str, Any]) -> Ranking:
    """Every legal strategy of the lattice within ``limits``, priced."""
    space = search_space(workload, limits_from_mapping(limits))
    lattice = LatticeSearch(workload, space, constants, top=MANY)
    while lattice.advance():
        pass
    state = lattice.state
    return Ranking(state.leaderboard.plans(), state.enumerated, state.legal, state.fits_memory)


def published_fitting(workload: Workload) -> list[tuple[ParallelStrategy, dict[str, Any]]]:
    """The published layout, micro batch and dispatcher under every recompute and swap setting that fits, fastest first."""
    plans = [published(mode, swap, micro_batch_size=2, dispatcher="hierarchical") for mode in MODES for swap in SWAPS.values()]
    pairs = [pair for pair in zip(plans, priced(workload, plans), strict=True) if pair[1]["fits"]]
    return sorted(pairs, key=lambda pair: float(pair[1]["step_time_s"]))


@dataclass(frozen=True)
class WhatIf:
    """One thing that the estimate leaves out, as a changed input."""

    name: str
    workload: Workload
    constants: Constants
    limits: Mapping[str, Any]


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
    profile = workload.cluster.profile
    streams = replace(workload, cluster=replace(workload.cluster, profile=replace(profile, sequential_tiers=False)))
    balanced = replace(workload, training=replace(workload.training, expert_load_factor=1.0))
    hidden = {"expert_comm_factor": (1.0 - HIDDEN_FRACTION) * constants.expert_comm_factor}
    roomy_profile = replace(profile, usable_hbm_bytes=2.0 * profile.usable_hbm_bytes)
    roomy = replace(workload, cluster=replace(workload.cluster, profile=roomy_profile))
    overlap = {"moe_comm_overlap": True}
    every = {**fused, **operators, **quiet_host, **hidden}
    return [
        WhatIf("as estimated", workload, constants, {}),
        WhatIf("expert communication behind the layer's own experts (`moe_comm_overlap`)", workload, constants, overlap),
        WhatIf(f"{100 * HIDDEN_FRACTION:.0f} % of expert communication hidden", workload, constants.with_values(hidden), {}),
        WhatIf("tiers in parallel streams", streams, constants, {}),
        WhatIf("experts perfectly balanced", balanced, constants, {}),
        WhatIf("cross-entropy as lean as on GPUs", workload, constants.with_values(fused), {}),
        WhatIf("faster matmul and attention", workload, constants.with_values(operators), {}),
        WhatIf("no host synchronisation", workload, constants.with_values(quiet_host), {}),
        WhatIf("twice the device memory", roomy, constants, {}),
        WhatIf("all of these but the memory", replace(balanced, cluster=streams.cluster), constants.with_values(every), {}),
    ]


def flops_per_token(model: ModelShape, seq_length: int, mask: str) -> float:
    """Model FLOPs; under a full mask a token attends to twice as many as under a causal one."""
    return model_flops_per_token(model, seq_length * (2.0 if mask == "full" else 1.0))
