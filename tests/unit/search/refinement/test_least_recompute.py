"""The least recompute by rank and by block: it fits, and one layer less anywhere does not."""

from dataclasses import replace

import pytest

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.step.composition import fitting_rows
from cost_models.step.priced_keys import LayerPrices
from search.refinement.least_recompute import least_block, least_by_rank
from tests.unit.search.tensor_choice.test_tensor_plan import LONG, NODES, tight
from tests.workloads import constants, workload

PLAN = ParallelStrategy(pp=4, dp=4, schedule=Schedule.ONE_F_ONE_B)
VIRTUAL = replace(PLAN, vpp=2, schedule=Schedule.INTERLEAVED)
VEE = replace(PLAN, vpp=2, schedule=Schedule.DUALPIPE_V)
JOB = workload(LONG, cluster=NODES)


@pytest.mark.parametrize("plan", [PLAN, VIRTUAL, VEE], ids=lambda plan: plan.schedule.label)
def test_every_rank_recomputes_as_few_layers_as_fit(plan: ParallelStrategy) -> None:
    job = tight(JOB, plan, 0.8)
    found = least_by_rank(LayerPrices(job, constants()), plan)
    assert found is not None
    layers = found.recompute_layers_per_stage
    assert layers is not None
    assert found.recompute is Recompute.FULL
    fewer = [
        replace(found, recompute_layers_per_stage=(*layers[:rank], layers[rank] - 1, *layers[rank + 1 :]))
        for rank in range(plan.pp)
        if layers[rank]
    ]
    assert fewer
    assert fitting_rows(job, StrategyBatch.of([found, *fewer]), constants()).tolist() == [True, *[False] * len(fewer)]


def test_early_ranks_hold_more_micro_batches_and_recompute_more() -> None:
    found = least_by_rank(LayerPrices(tight(JOB, PLAN, 0.75), constants()), PLAN)
    assert found is not None
    layers = found.recompute_layers_per_stage
    assert layers is not None
    assert list(layers) == sorted(layers, reverse=True)
    assert layers[0] > layers[-1]


def test_a_plan_that_fits_as_it_is_recomputes_no_layer() -> None:
    prices, modules = LayerPrices(JOB, constants()), RecomputeModule.LAYERNORM
    selective = replace(PLAN, recompute=Recompute.SELECTIVE, recompute_modules=modules)
    assert least_by_rank(prices, PLAN) == PLAN
    assert least_by_rank(prices, selective) == selective
    assert least_block(prices, PLAN) == PLAN


def test_nothing_is_found_where_not_even_all_layers_are_enough() -> None:
    prices = LayerPrices(tight(JOB, PLAN, 0.0), constants())
    assert least_by_rank(prices, PLAN) is None
    assert least_block(prices, PLAN) is None


def test_a_block_is_as_short_as_fits() -> None:
    job = tight(JOB, PLAN, 0.75)
    found = least_block(LayerPrices(job, constants()), PLAN)
    assert found is not None
    assert found.recompute_method is RecomputeMethod.BLOCK
    assert found.recompute_num_layers == 1  # of the two that a rank holds
    assert fitting_rows(job, StrategyBatch.of([found, PLAN]), constants()).tolist() == [True, False]
