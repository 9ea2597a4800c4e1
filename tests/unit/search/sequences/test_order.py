"""Packed samples by hand, and orders against every order there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from search.sequences.order import as_they_come, packed_fractions, rearranged, spread
from search.sequences.priced import sequence_plan
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")


def test_samples_are_cut_where_sequences_end() -> None:
    # Of 10 tokens: 6 + 4 of the second sample; its other 3, 5, and 2 of the last; the last's other 10.
    fractions = packed_fractions(np.array([6, 7, 5, 12]), 10, 3)
    np.testing.assert_allclose(fractions, [(36 + 16) / 100, (9 + 25 + 4) / 100, 1.0])
    assert packed_fractions(np.array([30, 1]), 10, 3).tolist() == [1.0, 1.0, 1.0]
    assert packed_fractions(np.array([10, 10, 10]), 10, 3).tolist() == [1.0, 1.0, 1.0]


def test_sequences_come_micro_batch_by_micro_batch() -> None:
    order = as_they_come(1, 2, 3, 2)
    assert order[0, 0].tolist() == [[0, 1], [4, 5], [8, 9]]
    assert order[0, 1].tolist() == [[2, 3], [6, 7], [10, 11]]


def slowest_of_all_orders(fractions: np.ndarray, shape: tuple[int, int, int], coupled: int) -> float:
    """The least that the slowest group of replicas can take, of every order: the sum of what each micro batch waits for."""
    orders = np.array(list(permutations(range(len(fractions)))))
    replicas, micro_batches, _ = shape
    micro = fractions[orders].reshape(len(orders), replicas // coupled, coupled, micro_batches, -1).mean(axis=4)
    return float(micro.max(axis=2).mean(axis=2).max(axis=1).min())


@pytest.mark.parametrize(
    ("shape", "coupled", "worst"),
    [
        ((2, 3, 1), 1, 1.003),
        ((3, 2, 1), 1, 1.003),
        ((2, 2, 2), 1, 1.003),
        ((2, 3, 1), 2, 1.003),
        ((2, 4, 1), 2, 1.003),
        ((2, 2, 2), 2, 1.15),  # four of a micro batch are shared out without a look at the next four
        ((4, 2, 1), 2, 1.15),  # groups are balanced by their sums, which is not all that they wait for
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_small_steps_are_ordered_as_well_as_any_order(shape: tuple[int, int, int], coupled: int, worst: float, seed: int) -> None:
    fractions = np.random.default_rng(seed).uniform(0.05, 1.0, int(np.prod(shape)))
    order = rearranged(fractions[None], *shape, coupled)
    assert sorted(order.ravel().tolist()) == list(range(len(fractions)))
    found = float(spread(fractions[None], order, 0.0, coupled).slowest[0])
    assert found <= worst * slowest_of_all_orders(fractions, shape, coupled)


def test_a_step_is_as_slow_as_its_fullest_replica_and_longest_micro_batch() -> None:
    fractions = np.array([[0.1, 0.2, 0.5, 0.4]])
    order = as_they_come(1, 2, 2, 1)  # replica 0: 0.1, 0.5; replica 1: 0.2, 0.4
    alone = spread(fractions, order, 0.0)
    assert alone.slowest[0] == pytest.approx(0.3)
    assert alone.micro_batches[0] == pytest.approx(0.5 / 0.3)
    # With one micro batch of bubble: (0.6 + 0.5) / 3.
    assert spread(fractions, order, 1.0).slowest[0] == pytest.approx(1.1 / 3)
    # Waiting for each other in each micro batch: (0.2 + 0.5) / 2.
    assert spread(fractions, order, 0.0, coupled=2).slowest[0] == pytest.approx(0.35)


def test_even_sequences_lose_nothing_and_long_contexts_recover() -> None:
    job = workload(DENSE, seq_length=131072, global_batch_size=16)
    strategy = ParallelStrategy(tp=4, dp=4)
    even = sequence_plan(job, strategy, CONSTANTS, estimate, np.full((3, 16), 0.5))
    np.testing.assert_allclose(even.before_s, even.balanced_s)
    np.testing.assert_allclose(even.after_s, even.balanced_s)
    half = replace(job, training=replace(job.training, mean_squared_length_fraction=0.5))
    assert even.after_s[0] == float(estimate(half, StrategyBatch.of([strategy]), CONSTANTS).step_time_s[0])
    uneven = sequence_plan(job, strategy, CONSTANTS, estimate, np.random.default_rng(0).uniform(0.01, 1.0, (8, 16)))
    assert (uneven.balanced_s <= uneven.after_s * (1 + 1e-9)).all()
    assert (uneven.after_s <= uneven.before_s).all()
    assert (uneven.before_s - uneven.balanced_s).sum() > 3 * (uneven.after_s - uneven.balanced_s).sum()


def test_replicas_that_share_experts_wait_for_each_other() -> None:
    fractions = np.random.default_rng(1).uniform(0.01, 1.0, (4, 64))
    job = workload(MOE)
    apart, together = (
        sequence_plan(job, ParallelStrategy(tp=2, dp=8, ep=ep), CONSTANTS, estimate, fractions).before.slowest.mean()
        for ep in (2, 16)
    )
    assert together > apart
