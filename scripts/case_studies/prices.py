"""Simulated estimates of strategies, and the share of expert communication that they hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.calibrations.constants import constants_for
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.priced_groups import priced_groups
from search.plans.plan import estimates_to_mappings


def simulated(
    workload: Workload, strategies: Sequence[ParallelStrategy], constants: Constants | None = None
) -> list[dict[str, Any]]:
    """Simulated estimates with their parts, in the same order."""
    found = simulate(workload, StrategyBatch.of(strategies), constants or constants_for(workload), breakdown=True)
    return estimates_to_mappings(workload, found)


def rank_seconds(workload: Workload, strategy: ParallelStrategy, constants: Constants | None = None) -> list[float]:
    """Seconds of each pipeline rank for a micro batch, forward and backward."""
    found = simulate(workload, StrategyBatch.of([strategy]), constants or constants_for(workload), breakdown=True)
    assert found.stage_time_s is not None
    return [float(seconds) for seconds in found.stage_time_s[: strategy.pp, 0]]


def exposed_fraction(found: dict[str, Any]) -> float:
    """Share of the expert communication of a step that its critical rank waits for."""
    exposed = float(found["time_breakdown_s"]["ep_comm"])
    return exposed / (exposed + float(found["masked_s"]["ep_comm"]))


@dataclass(frozen=True)
class LayerExchange:
    """Expert communication of one MoE layer and micro batch, forward and backward together, in seconds.

    ``left_s`` is the exposed time of a merged pair, ``stretch_s`` the slowdown of its compute by hidden communication;
    ``left_alone_s`` is the exposed time of passes outside a pair.
    """

    total_s: float
    left_s: float
    stretch_s: float
    left_alone_s: float


def layer_exchange(workload: Workload, strategy: ParallelStrategy, constants: Constants | None = None) -> LayerExchange:
    """Time of dispatch and combine of ``strategy``, and the part that merged pairs expose."""
    constants = constants or constants_for(workload)
    alone = replace(strategy, features=strategy.features & ~Feature.MOE_COMM_OVERLAP)
    merged = replace(strategy, features=strategy.features | Feature.MOE_COMM_OVERLAP)

    stretch = constants.hidden_stretch_fraction

    def exposed_s(chosen: ParallelStrategy) -> tuple[float, float]:
        ((_, group),) = priced_groups(workload, StrategyBatch.of([chosen]), constants, merge=False, tables=True)
        kind = max(range(len(group.stages.layer_kinds)), key=group.stages.layer_kinds.__getitem__)  # a MoE layer's
        layer, savings = group.priced.layers[kind], group.priced.savings
        saved = None if savings is None else savings.by_kinds[kind][kind]
        passes = float((layer.forward["ep_comm"] + layer.backward["ep_comm"])[0])
        return passes, passes - (0.0 if saved is None else float(saved[0]) / (1.0 - stretch))

    left_alone_s, left_s = exposed_s(merged)
    total_s = exposed_s(alone)[0]
    return LayerExchange(total_s=total_s, left_s=left_s, stretch_s=stretch * (total_s - left_s), left_alone_s=left_alone_s)
