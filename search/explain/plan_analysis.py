"""The analysis of one plan: pipeline ranks, traffic, effects of one change, and sensitivity."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cost_models.constants import Constants
from cost_models.network.rank_placement import copied_shards, rank_groups
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.stage_costs import StageCosts, stage_costs
from cost_models.step.traffic import step_traffic
from search.explain.explanation import one_change
from search.plans.estimator import Estimator
from search.plans.plan import rows_of
from search.sensitivity.quantities import sensitivity
from search.space.search_space import SearchSpace


def plan_analysis(
    workload: Workload, space: SearchSpace, strategy: ParallelStrategy, constants: Constants, estimate: Estimator
) -> dict[str, Any]:
    """The analysis of a legal strategy as JSON. Raises as ``cost_models.step.composition.estimate`` does."""
    priced = estimate(workload, StrategyBatch.of([strategy]), constants)
    return {
        "step_time_s": float(priced.step_time_s[0]),
        "memory_limit_bytes": float(priced.memory_limit_bytes),
        "fit_limit_bytes": float(priced.fit_rule.fit_limit_bytes),
        "tiers": [
            {"name": tier.name, "wiring": tier.wiring, "domain_devices": tier.domain_devices}
            for tier in workload.cluster.profile.tiers
        ],
        "stages": _stages(stage_costs(workload, strategy, constants)),
        "devices_per_node": workload.cluster.profile.devices_per_node,
        "placement": _placement(workload, strategy),
        "traffic": [asdict(group) for group in step_traffic(workload, strategy, constants)],
        "changes": one_change(workload, space, strategy, constants, estimate),
        "sensitivity": sensitivity(workload, strategy, constants, estimate),
    }


def _placement(workload: Workload, strategy: ParallelStrategy) -> list[dict[str, Any]]:
    batch = StrategyBatch.of([strategy])
    ranks, (shards, copies) = rank_groups(batch), copied_shards(batch)
    kinds = {"tp": ranks.tp, "cp": ranks.cp, "dp": ranks.dp_cp, "pp": ranks.pp}
    if workload.model.moe is not None:
        kinds |= {"ep": ranks.ep, "expert_dp": ranks.edp}
    if copies.size[0] > 1:
        kinds |= {"shard": shards, "copies": copies}
    return [{"group": name, "size": int(group.size[0]), "stride": int(group.stride[0])} for name, group in kinds.items()]


def _stages(costs: StageCosts) -> list[dict[str, Any]]:
    stages = rows_of({name: values for name, values in vars(costs).items() if name != "memory_bytes"})
    memory = zip(stages, rows_of(costs.memory_bytes), strict=True)
    return [{"stage": stage, **row, "memory_bytes": parts} for stage, (row, parts) in enumerate(memory)]
