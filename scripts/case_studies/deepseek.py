"""DeepSeek-V3 under DualPipe and DualPipeV, on Atlas A3 and on the cluster that trained it: the numbers of the case study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from cost_models.step.priced_groups import priced_groups
from scripts.case_studies.prices import simulated
from search.placement.placer import Placer

RECIPE: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 512},
    "training": {"seq_length": 4096, "global_batch_size": 3840, "precision": "bf16"},
    "strategy": {
        "tp": 2,
        "pp": 8,
        "vpp": 2,
        "ep": 32,
        "micro_batch_size": 1,
        "schedule": "dualpipev",
        "moe_dispatcher": "alltoall",
        "recompute": "full",
    },
}
TRAINED: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": {"hardware": "h800-sxm-80gb", "num_devices": 2048},
    # The router balances the load without dropping tokens [deepseek-v3, section 2.1.2].
    "training": {"seq_length": 4096, "global_batch_size": 15360, "precision": "fp8", "expert_load_factor": 1.1},
    "software": {"year": 2025.5},  # routers keep no copy of the norm's output, as in the report
    "strategy": {
        "tp": 1,
        "pp": 16,
        "ep": 64,
        "micro_batch_size": 1,
        "moe_dispatcher": "two_level",
        "recompute": "layernorm+mlp_act+mla_up_proj",
        "switches": {"bf16_moments": True, "fp8_activation_input": True},
    },
}
# The report does not say where its 61 layers are: four a stage give 64 places for them, embedding, prediction layer and head.
STAGES = (3, *(4,) * 14, 2)
HOURS_PER_TRILLION_TOKENS = 180e3  # H800 hours of pre-training [deepseek-v3, table 1]
MERGED = Feature.MOE_COMM_OVERLAP
DETACHED = MERGED | Feature.DUALPIPEV_DW_DETACH
SCHEDULES: tuple[tuple[Schedule, int, Feature], ...] = (
    (Schedule.ONE_F_ONE_B, 1, Feature(0)),
    (Schedule.ZB1P, 1, Feature(0)),
    (Schedule.INTERLEAVED, 2, Feature(0)),
    (Schedule.INTERLEAVED, 2, MERGED),
    (Schedule.ZBV, 2, Feature(0)),
    (Schedule.DUALPIPE_V, 2, Feature(0)),
    (Schedule.DUALPIPE_V, 2, MERGED),
    (Schedule.DUALPIPE_V, 2, DETACHED),
    (Schedule.DUALPIPE, 1, MERGED),
)
# MindSpeed forbids both with merged pairs, so no schedule has them here.
FEATURES = (DEFAULT_FEATURES & ~(Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER)) | Feature.SWAP_OPTIMIZER


@cache
def workload_of(name: str) -> Workload:
    """The workload of ``recipe`` or ``trained``."""
    return parse_job({"recipe": RECIPE, "trained": TRAINED}[name]).workload


def recipe() -> ParallelStrategy:
    """MindSpeed-LLM's recipe for 512 dies [mindspeed-llm, pretrain_deepseek3_671b_4k_A3_ptd.sh]."""
    strategy = parse_job(RECIPE).strategy
    assert strategy is not None
    return replace(strategy, features=FEATURES | MERGED)


def trained(schedule: Schedule, vpp: int, features: Feature) -> ParallelStrategy:
    """The layout of the report, under any schedule [deepseek-v3, section 3.2]."""
    strategy = parse_job(TRAINED).strategy
    assert strategy is not None
    layout = (STAGES,) if vpp == 1 else None
    return replace(strategy, schedule=schedule, vpp=vpp, features=strategy.features | features, layer_layout=layout)


def under(strategy: ParallelStrategy, schedules: Sequence[tuple[Schedule, int, Feature]] = SCHEDULES) -> list[ParallelStrategy]:
    """The layout under each schedule."""
    return [replace(strategy, schedule=s, vpp=v, features=(strategy.features & ~DETACHED) | f) for s, v, f in schedules]


def best_placed(workload: Workload, strategies: Sequence[ParallelStrategy]) -> list[dict[str, Any]]:
    """Simulated estimates with the fastest placement of layers, or the given one if that is faster."""
    moved = Placer(workload).best(constants_for(workload), strategies)
    both = zip(simulated(workload, moved), simulated(workload, strategies), strict=True)
    return [min(pair, key=lambda e: (not e["fits"], e["step_time_s"])) for pair in both]


@dataclass(frozen=True)
class PassSeconds:
    """Seconds of a forward, a backward, its weight gradients and a merged pair of one chunk."""

    forward: float
    backward: float
    weight: float
    pair: float


def chunk_seconds(workload: Workload, strategy: ParallelStrategy) -> PassSeconds:
    """Times of the first chunk of the middle rank, which has neither dense layers nor an end of the model."""
    ((_, group),) = priced_groups(workload, StrategyBatch.of([strategy]), constants_for(workload), merge=False, tables=True)
    chunk, rank = group.chunks[0], strategy.pp // 2
    if group.merged is not None:
        chunk = chunk.saving(group.merged.of(0, 0))
    return PassSeconds(*(float(each[rank, 0]) for each in (chunk.forward, chunk.backward, chunk.weight_gradient, chunk.pair)))


def published_bubble_s(strategy: ParallelStrategy, times: PassSeconds) -> tuple[str, float] | None:
    """A schedule's bubble by its published formula, times of one chunk [dualpipe; mindspeed, dualpipev; zero-bubble]."""
    p, f, b, w, fb = strategy.pp, times.forward, times.backward, times.weight, times.pair
    merged, detached = MERGED in strategy.features, Feature.DUALPIPEV_DW_DETACH in strategy.features
    match strategy.schedule:
        case Schedule.ONE_F_ONE_B:
            return "(p - 1)(F + B)", (p - 1) * (f + b)
        case Schedule.ZB1P:
            return "(p - 1)(F + B - 2W)", (p - 1) * (f + b - 2 * w)
        case Schedule.INTERLEAVED if not merged:
            return "(p - 1)(F + B)", (p - 1) * (f + b)
        case Schedule.DUALPIPE_V if detached:
            return "(p - 1)(FB + B - 3W)", (p - 1) * (fb + b - 3 * w)
        case Schedule.DUALPIPE_V if merged:
            return "(p - 1)(FB + B - W) - F", (p - 1) * (fb + b - w) - f
        case Schedule.DUALPIPE if merged:
            return "(p/2 - 1)(FB + B - 3W)", (p / 2 - 1) * (fb + b - 3 * w)
    return None
