"""The structures of a search with tensors chosen one by one, at their micro batch size and twice that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from frameworks.legality import violations
from frameworks.target import ANY
from search.plans.estimator import Estimator
from search.plans.plan import estimates_to_mappings, plan_id, strategy_to_mapping
from search.space.search_space import SearchSpace
from search.tensor_choice.exports import Export, exports
from search.tensor_choice.tensor_plan import with_tensors

HELD = "activations_"  # parts of a peak that wait for a backward


@dataclass(frozen=True)
class TensorRefinement:
    """A plan of a search with its tensors chosen one by one; the proof does not cover it.

    ``gain_fraction`` is the part of the step time of plan ``of_plan_id`` that it saves. ``saved_fraction`` is the share of
    activations that the layers of the fullest rank free. ``added_s`` is the cost for the rank that pays most, for a micro batch.
    ``exports`` are what files of frameworks can state of it.
    """

    of_plan_id: str
    plan_id: str
    micro_batch_size: int
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    gain_fraction: float
    saved_fraction: float
    added_s: float
    exports: tuple[Export, ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {**vars(self), "exports": [each.to_mapping() for each in self.exports]}


def refined(
    workload: Workload,
    space: SearchSpace,
    constants: Constants,
    simulate: Estimator,
    plan: ParallelStrategy,
    step_time_s: float,
) -> tuple[TensorRefinement, ...]:
    """A plan, with its step time, with tensors chosen: at its micro batch size and at twice that, where it fits and is faster.

    Empty for a target: only physics has plans by tensor in a search.
    """
    if workload.software.target != ANY.name:
        return ()
    sizes = (plan.micro_batch_size, 2 * plan.micro_batch_size)
    return tuple(
        each
        for size in sizes
        if size in space.micro_batch_size
        for each in _of(workload, constants, simulate, plan, size, step_time_s)
    )


def _of(
    workload: Workload, constants: Constants, simulate: Estimator, plan: ParallelStrategy, size: int, step_time_s: float
) -> Iterator[TensorRefinement]:
    wider = canonical(workload, replace(plan, micro_batch_size=size))
    if violations(workload, wider, ANY):
        return
    answer = with_tensors(workload, wider, constants)
    if answer is None or answer.strategy.tensor_plan is None or violations(workload, answer.strategy, ANY):
        return
    chosen = answer.strategy
    batch = StrategyBatch.of([chosen, replace(chosen, tensor_plan=None)])
    estimate = simulate(workload, batch, constants, breakdown=True)
    (numbers, _) = estimates_to_mappings(workload, estimate)
    gain = 1.0 - numbers["step_time_s"] / step_time_s
    if not numbers["fits"] or gain <= 0.0:
        return
    yield TensorRefinement(
        of_plan_id=plan_id(workload, plan),
        plan_id=plan_id(workload, chosen),
        micro_batch_size=size,
        strategy=strategy_to_mapping(workload, chosen),
        estimate=numbers,
        gain_fraction=gain,
        saved_fraction=saved_fraction(estimate),
        added_s=max(answer.added_s),
        exports=exports(workload, chosen, constants, simulate),
    )


def saved_fraction(estimate: Estimate) -> float:
    """The share of activations that the first of two rows frees, compared with the second. Both have a breakdown."""
    assert estimate.breakdown is not None
    parts = [column for name, column in estimate.breakdown.memory_bytes.items() if name.startswith(HELD)]
    kept = np.sum(parts, axis=0)
    return float(1.0 - kept[0] / kept[1]) if kept[1] else 0.0
