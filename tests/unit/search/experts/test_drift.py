"""A training without drift plans once; one with drift plans again, and gains what its loads lose."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.router_balance import RouterBalance
from search.experts.drift import DriftedTraining, drifted_training
from search.experts.generated import EARLY_STEPS, Router
from search.experts.plan import Prices, Terms

LAYERS, EXPERTS, RANKS, COPIES = 3, 32, 8, 10**8


def played(num_steps: int, *, domain_sd: float, move_s: float = 0.01, seed: int = 0) -> DriftedTraining:
    spread = ExpertSpread(RouterBalance.AUXILIARY_LOSS, EXPERTS, base_sd=0.4, domain_sd=domain_sd)
    router = Router.drawn(spread, LAYERS, 1, seed)
    prices = Prices(0.1, move_s, move_s, 0.0, 0.0, 1.0, 1.0, 0, np.zeros(LAYERS, dtype=np.int64))
    return drifted_training(router, COPIES, RANKS, num_steps, prices, Terms(1, 50, 0))


def test_without_drift_one_plan_serves_the_training() -> None:
    found = played(1000, domain_sd=0.0)
    assert found.is_planned == [True, *[False] * 19]
    # By hand: one load per layer, 0.1 s for each mean load above the mean, in all steps but the 50 before the plan.
    spread = ExpertSpread(RouterBalance.AUXILIARY_LOSS, EXPERTS, base_sd=0.4, domain_sd=0.0)
    weights = np.exp(Router.drawn(spread, LAYERS, 1, 0).base)
    ranks = weights.reshape(LAYERS, RANKS, -1).sum(axis=2)
    in_order_s = 0.1 * float((ranks.max(axis=1) / ranks.mean(axis=1) - 1.0).sum())
    assert found.in_order_s == pytest.approx(in_order_s, rel=1e-3)
    assert found.replanned_s == found.planned_once_s
    rest_s = found.replanned_s - (50 * in_order_s + found.moves_s) / 1000
    assert 0.0 <= rest_s < 0.03 * in_order_s


def test_with_drift_a_single_plan_ages_and_plans_follow_each_other() -> None:
    found = played(EARLY_STEPS + 10_000, domain_sd=0.7)
    assert found.replanned_s < found.planned_once_s < found.in_order_s
    early = EARLY_STEPS // found.interval_steps
    # Loads walk by 0.7 sqrt(2 (1 - 0.999^50)) = 0.22 in 50 early steps, and by 0.005 in 50 later ones.
    assert np.mean(found.is_planned[:early]) > 4 * np.mean(found.is_planned[early:])
    assert found.load_planned_once[early:].mean() > found.load_replanned[early:].mean() + 0.1
    dear = played(EARLY_STEPS, domain_sd=0.7, move_s=10.0)
    assert not any(dear.is_planned)
    assert dear.replanned_s == dear.in_order_s


def test_long_trainings_have_longer_intervals() -> None:
    found = played(100_000, domain_sd=0.0)
    assert found.interval_steps == 250
    assert len(found.load_in_order) == 400
