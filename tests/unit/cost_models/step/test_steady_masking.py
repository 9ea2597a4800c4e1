"""The share that a steady step hides is what further micro batches add to a simulated step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.simulation.step_times import simulate
from cost_models.step.steady_masking import steady_masked_fraction
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
PLAIN = ParallelStrategy(pp=2, dp=8, ep=8, vpp=2, schedule=Schedule.INTERLEAVED, dispatcher=Dispatcher.ALLTOALL)
MERGED = replace(PLAIN, features=DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP)


def ep_comm(strategy: ParallelStrategy, micro_batches: int) -> tuple[float, float]:
    """Exposed and hidden seconds of a simulated step."""
    job = workload(MOE)
    job = replace(job, training=replace(job.training, global_batch_size=8 * micro_batches))
    found = simulate(job, StrategyBatch.of([strategy]), CONSTANTS, breakdown=True)
    assert found.breakdown is not None
    return float(found.breakdown.time_s["ep_comm"][0]), float(found.breakdown.masked_s["ep_comm"][0])


@pytest.mark.parametrize("strategy", [PLAIN, MERGED])
def test_further_micro_batches_hide_the_steady_share(strategy: ParallelStrategy) -> None:
    (exposed, masked), (more_exposed, more_masked) = ep_comm(strategy, 32), ep_comm(strategy, 64)
    added = (more_masked - masked) / (more_masked - masked + more_exposed - exposed)
    assert steady_masked_fraction(workload(MOE), strategy, CONSTANTS) == pytest.approx(added, abs=0.01)


def test_pairs_hide_more_in_a_steady_step_than_in_the_whole() -> None:
    exposed, masked = ep_comm(MERGED, 16)
    steady, alone = (steady_masked_fraction(workload(MOE), one, CONSTANTS) for one in (MERGED, PLAIN))
    assert steady is not None
    assert alone is not None
    assert alone < masked / (exposed + masked) < steady <= 1.0


def test_a_model_without_experts_has_none() -> None:
    assert steady_masked_fraction(workload(DENSE), ParallelStrategy(dp=8), CONSTANTS) is None
