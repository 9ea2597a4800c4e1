"""The costs of shardings, kept from batch to batch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.simulation.step_times import simulate
from cost_models.step import sharded_model
from cost_models.step.composition import estimate, estimate_priced
from cost_models.step.priced_groups import KnownPipelines, priced_by
from cost_models.step.priced_keys import LayerPrices
from tests.workloads import workload

JOB = workload()
PLAN = ParallelStrategy(tp=2, pp=2, dp=2, schedule=Schedule.ONE_F_ONE_B)
OTHERS = [replace(PLAN, zero_stage=stage, optimizer_shard_size=size) for stage, size in ((0, 0), (1, 0), (1, 2))]
CONSTANTS = prior_constants(JOB.cluster.profile.family)


def test_a_batch_that_is_interrupted_leaves_no_sharding_with_the_price_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    prices, known = LayerPrices(JOB, CONSTANTS), KnownPipelines()
    estimate_priced(priced_by(prices, StrategyBatch.of([PLAN]), known))

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr(sharded_model, "gradient_exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            estimate_priced(priced_by(prices, StrategyBatch.of(OTHERS), known))
    found = estimate_priced(priced_by(prices, StrategyBatch.of(OTHERS), known))
    np.testing.assert_array_equal(found.step_time_s, estimate(JOB, StrategyBatch.of(OTHERS), CONSTANTS).step_time_s)


def test_a_sharding_is_priced_once_however_many_batches_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    prices, known, priced = LayerPrices(JOB, CONSTANTS), KnownPipelines(), []
    exchange = sharded_model.gradient_exchange

    def counted(workload: Any, batch: StrategyBatch, *given: Any) -> Any:
        priced.append(len(batch))
        return exchange(workload, batch, *given)

    monkeypatch.setattr(sharded_model, "gradient_exchange", counted)
    for batch in ([PLAN], [PLAN, *OTHERS], OTHERS):
        estimate_priced(priced_by(prices, StrategyBatch.of(batch), known))
    assert priced == [1, len({PLAN, *OTHERS}) - 1]


def test_each_sharding_has_its_own_price_whichever_came_first() -> None:
    prices, known = LayerPrices(JOB, CONSTANTS), KnownPipelines()
    for strategies in ([PLAN], OTHERS, [PLAN, *OTHERS]):
        batch = StrategyBatch.of(strategies)
        found, expected = estimate_priced(priced_by(prices, batch, known)), estimate(JOB, batch, CONSTANTS)
        np.testing.assert_array_equal(found.step_time_s, expected.step_time_s)
        np.testing.assert_array_equal(found.peak_memory_bytes, expected.peak_memory_bytes)
    assert len(set(found.peak_memory_bytes)) > 1


LAYERS = JOB.model.num_layers
PLACED = [
    replace(PLAN, layer_layout=((first, LAYERS - first),), zero_stage=stage, micro_batch_size=size)
    for first in (LAYERS // 2, LAYERS // 2 - 1, LAYERS // 2 + 1)
    for stage, size in ((0, 1), (1, 2), (3, 1))
]


def test_placements_of_a_pipeline_share_the_price_of_their_shardings(monkeypatch: pytest.MonkeyPatch) -> None:
    priced, exchange = [], sharded_model.gradient_exchange

    def counted(workload: Any, batch: StrategyBatch, *given: Any) -> Any:
        priced.append(len(batch))
        return exchange(workload, batch, *given)

    monkeypatch.setattr(sharded_model, "gradient_exchange", counted)
    estimate(JOB, StrategyBatch.of(PLACED), CONSTANTS)
    assert priced == [3]  # shardings, for nine strategies of three placements


@pytest.mark.parametrize("priced", [estimate, simulate])
def test_a_strategy_costs_what_it_does_alone_whichever_placements_are_beside_it(priced: Any) -> None:
    together = priced(JOB, StrategyBatch.of(PLACED), CONSTANTS)
    alone = [priced(JOB, StrategyBatch.of([plan]), CONSTANTS) for plan in PLACED]
    for name in ("step_time_s", "step_time_lower_bound_s", "peak_memory_bytes"):
        assert getattr(together, name).tolist() == [float(getattr(each, name)[0]) for each in alone]
    assert len(set(together.peak_memory_bytes.tolist())) == len(PLACED)


def test_steps_alone_are_those_of_a_whole_simulation() -> None:
    batch = StrategyBatch.of(PLACED)
    steps = simulate(JOB, batch, CONSTANTS, memory=False)
    assert steps.step_time_s.tolist() == simulate(JOB, batch, CONSTANTS).step_time_s.tolist()
    assert np.isnan(steps.step_time_lower_bound_s).all()
