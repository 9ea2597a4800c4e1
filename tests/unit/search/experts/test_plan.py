"""A plan pays for its moves or does nothing; what it gains is the difference of two estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import Constants, prior_constants
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from search.experts.generated import generated_counts
from search.experts.placement import Placement, in_order, moves
from search.experts.plan import Prices, Terms, expected, gain_s, plan
from search.experts.priced import nodes_of_group, priced_plan, stages_of_moe_layers
from tests.search_workloads import MOE, workload

CONSTANTS = prior_constants("ascend")
JOB = workload(MOE)
STRATEGY = ParallelStrategy(pp=2, dp=8, ep=8)
NUM_LAYERS = 11  # of 12, the first of which is dense


def step(given: Workload, batch: StrategyBatch, constants: Constants) -> Estimate:
    return estimate(given, batch, constants)


def prices(**changes: float) -> Prices:
    given = {"load_s": 0.1, "move_inside_s": 0.01, "move_between_s": 0.05, "share_inside_s": 1e-4, "share_between_s": 1e-3}
    numbers = {**given, "expert_bytes": 1e8, "copy_bytes": 1e8, "spare_copies": 1, **changes}
    return Prices(**numbers, stage_of_layer=np.array([0, 0, 1]))  # type: ignore[arg-type]


def trace(seed: int, num_steps: int, sd: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.lognormal(0.0, sd, (num_steps, 3, 16)) * random.lognormal(0.0, sd, (3, 16))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_steps=st.integers(1, 6),
    sd=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    load_s=st.sampled_from([0.0, 1e-4, 1e-2, 1.0]),
    move_s=st.sampled_from([0.0, 1e-3, 0.1, 10.0]),
    valid_steps=st.sampled_from([1, 50, 10_000]),
    num_nodes=st.sampled_from([1, 2]),
    max_extra_slots=st.sampled_from([0, 1]),
)
def test_a_plan_is_never_worse_than_nothing_once_its_costs_are_paid(
    seed: int, num_steps: int, sd: float, load_s: float, move_s: float, valid_steps: int, num_nodes: int, max_extra_slots: int
) -> None:
    terms = Terms(num_nodes, valid_steps, max_extra_slots)
    priced = prices(load_s=load_s, move_inside_s=move_s, move_between_s=5 * move_s)
    counts, current = trace(seed, num_steps, sd), in_order(3, 16, 4)
    coming = expected(counts, terms)
    found = plan(coming, current, priced, terms)
    before = current.load_factors(coming.shares)
    gained = gain_s(before, found.change, priced, terms, found.realised_fraction)
    assert gained >= 0.0
    if found.change.placement is not current:
        assert gained > 0.0
        # By hand: what all layers gain, less what copies and moves cost the stage that pays most.
        lighter = load_s * float((before - found.change.placement.load_factors(coming.shares)).sum())
        moved = moves(current, found.change.placement, 16, num_nodes)
        one_s = moved.inside_of_rank * move_s + moved.between_of_rank * 5 * move_s  # one link a rank
        a_step = lighter * found.realised_fraction - max(found.change.share_s[:2].sum(), found.change.share_s[2])
        assert gained == pytest.approx(valid_steps * a_step - max(one_s[:2].sum(), one_s[2]), rel=1e-9, abs=1e-12)
    else:
        assert not any(found.triggered)
        assert found.change.move_s.sum() == 0.0


def test_dear_moves_stay_away_and_longer_terms_bring_them_back() -> None:
    counts, current = trace(1, 1, 0.5), in_order(3, 16, 4)
    dear = prices(move_inside_s=10.0)
    for valid_steps, is_moved in ((1, False), (1_000_000, True)):
        terms = Terms(1, valid_steps, 0)
        assert any(plan(expected(counts, terms), current, dear, terms).triggered) is is_moved


def test_loads_that_nobody_can_foresee_promise_little() -> None:
    random = np.random.default_rng(3)
    terms, told = Terms(1, 50, 0), []
    for _ in range(12):
        counts = random.lognormal(0.0, 1.0, (12, 3, 16))  # every step anew
        told.append(plan(expected(counts, terms), in_order(3, 16, 4), prices(), terms).realised_fraction)
    assert np.mean(told) < 0.2
    steady = np.repeat(random.lognormal(0.0, 1.0, (1, 3, 16)), 12, axis=0)
    assert plan(expected(steady, terms), in_order(3, 16, 4), prices(), terms).realised_fraction == pytest.approx(1.0)


def test_copies_help_where_a_rank_has_one_expert_and_need_memory() -> None:
    counts = np.array([[[8.0, 1.0, 1.0, 2.0]]] * 3).transpose(1, 0, 2)
    terms = Terms(1, 1000, 1)
    found = plan(expected(counts, terms), in_order(3, 4, 4), prices(), terms)
    assert found.change.placement.slots == 2
    assert found.change.load_factors.max() < 1.1 < 8 / 3
    full = plan(expected(counts, terms), in_order(3, 4, 4), prices(spare_copies=0), terms)
    assert full.change.placement.slots == 1


def test_the_gain_of_a_plan_is_the_difference_of_two_estimates() -> None:
    spread = JOB.model.expert_spread()
    assert spread is not None
    counts = generated_counts(spread, NUM_LAYERS, 6, 10**6)
    found = priced_plan(JOB, STRATEGY, CONSTANTS, step, counts, in_order(NUM_LAYERS, 32, 8), Terms(1, 1000, 0))
    shares = found.plan.coming.shares

    def step_s(placement: Placement) -> float:
        slots = placement.slot_loads(shares).reshape(NUM_LAYERS, -1)
        training = replace(JOB.training, expert_counts=ExpertCounts(tuple(map(tuple, slots.tolist()))))
        return float(estimate(replace(JOB, training=training), StrategyBatch.of([STRATEGY]), CONSTANTS).step_time_s[0])

    assert found.is_worth
    assert found.before_s == step_s(found.plan.current)
    assert found.after_s == step_s(found.plan.change.placement) < found.before_s
    assert found.exposed_before_s.sum() == pytest.approx(found.before_s - found.balanced_s)
    assert found.exposed_after_s.sum() == pytest.approx(found.after_s - found.balanced_s)
    assert found.break_even_steps == pytest.approx(
        found.move_s / ((found.before_s - found.after_s) * found.plan.realised_fraction)
    )


def test_an_expert_moves_with_its_weights_master_copy_and_moments() -> None:
    counts = np.ones((1, NUM_LAYERS, 32))
    found = priced_plan(JOB, STRATEGY, CONSTANTS, step, counts, in_order(NUM_LAYERS, 32, 8), Terms(1, 50, 1))
    # 3 x 2048 x 4096 parameters: 2 bytes of weight, 4 of master copy, 8 of moments.
    assert found.prices.expert_bytes == 3 * 2048 * 4096 * 14
    # A copy keeps 4 bytes of gradient too; states lie on one replica alone, since ep takes all of dp.
    assert found.prices.copy_bytes == 3 * 2048 * 4096 * 18
    assert not found.is_worth
    assert found.after_s == found.before_s == found.balanced_s


def test_groups_lie_over_nodes_and_layers_over_stages() -> None:
    assert nodes_of_group(JOB, STRATEGY, 32) == 1
    assert nodes_of_group(JOB, ParallelStrategy(dp=16, ep=16), 32) == 2
    assert nodes_of_group(JOB, ParallelStrategy(dp=16, ep=4, etp=4, tp=4), 32) == 2
    assert stages_of_moe_layers(JOB, STRATEGY).tolist() == [0] * 5 + [1] * 6
