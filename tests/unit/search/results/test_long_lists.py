"""Plans of a long list are priced together with those of the same pipeline, and each gets its own price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.constants import Constants, prior_constants
from cost_models.shapes.strategy import ParallelStrategy, Recompute, Schedule, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.result import Estimate
from search.plans.plan import estimates_to_mappings
from search.results.result_builder import ResultBuilder
from search.space.search_space import search_space
from tests.search_workloads import DENSE, workload

CONSTANTS = prior_constants("ascend")
JOB = workload(replace(DENSE, num_layers=8), num_devices=8)
PIPELINES = [
    ParallelStrategy(tp=1, pp=pp, dp=8 // pp, schedule=Schedule.ONE_F_ONE_B if pp > 1 else Schedule.NONE) for pp in (1, 2, 4, 8)
]
FORMS = [
    replace(plan, micro_batch_size=size, recompute=recompute)
    for size in (1, 2)
    for recompute in (Recompute.NONE, Recompute.SELECTIVE)
    for plan in PIPELINES
]


class Recorder:
    """A simulator that keeps the pipelines of each batch."""

    def __init__(self) -> None:
        self.pipelines: list[set[int]] = []

    def __call__(self, workload: Workload, batch: StrategyBatch, constants: Constants, **options: Any) -> Estimate:
        self.pipelines.append(set(batch.pp.tolist()))
        return simulate(workload, batch, constants, **options)


def test_each_plan_of_a_list_has_the_price_that_it_has_alone() -> None:
    builder = ResultBuilder(JOB, search_space(JOB), CONSTANTS, simulate)
    alone = [estimates_to_mappings(JOB, simulate(JOB, StrategyBatch.of([plan]), CONSTANTS, breakdown=True))[0] for plan in FORMS]
    assert builder.estimates(FORMS) == alone
    assert len({found["step_time_s"] for found in alone}) > len(PIPELINES)


def test_a_long_list_is_priced_pipeline_by_pipeline() -> None:
    seen = Recorder()
    plans = FORMS * 20
    ResultBuilder(JOB, search_space(JOB), CONSTANTS, seen).estimates(plans)
    assert len(seen.pipelines) > 2
    assert sum(map(len, seen.pipelines)) < len(seen.pipelines) + len(PIPELINES)
