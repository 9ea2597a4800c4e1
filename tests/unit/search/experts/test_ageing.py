"""The gain that is promised over the steps of a plan is the one that comes true in them."""

from __future__ import annotations

import numpy as np
import pytest

from search.experts.ageing import ageing
from search.experts.placement import in_order
from search.experts.plan import Prices, Terms, expected, plan, replan
from tests.unit.search.experts.test_forecasting import traced


def test_a_decline_goes_on_with_the_root_of_the_age() -> None:
    roots = np.sqrt(np.arange(1, 51))
    found = ageing(1.0 - 0.05 * roots[:25])
    assert found.mean(25) == pytest.approx(float(np.mean(1.0 - 0.05 * roots[:25])))
    assert found.mean(50) == pytest.approx(float(np.mean(1.0 - 0.05 * roots)), rel=1e-4)
    assert found.age_of_loss(0.5) == pytest.approx(100.0)
    # All is lost after 400 steps: the sum of 1 - 0.05 sqrt(k) up to there, by the integral.
    assert found.mean(100_000) == pytest.approx((400 - 0.05 * 2 / 3 * 400**1.5) / 100_000, rel=0.02)


def test_noise_and_few_steps_are_no_decline() -> None:
    steady = 0.8 + 0.05 * np.cos(np.arange(40) * 2.0)
    assert ageing(steady).age_of_loss(0.1) is None
    assert ageing(steady).mean(10_000) == pytest.approx(0.8, abs=0.01)
    assert ageing(np.array([0.9, 0.5])).mean(50) == pytest.approx(0.7)


@pytest.mark.parametrize("kind", ["walk", "trend", "reverting", "noise"])
def test_the_promise_over_fifty_steps_is_what_fifty_steps_keep(kind: str) -> None:
    """A log of 60 steps, of which 30 judge the plan; the 50 steps after it are counted apart."""
    prices = Prices(1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0, np.zeros(4, dtype=np.int64))
    told, kept = [], []
    for seed in range(5):
        shares = traced(kind, seed, 110)
        current, terms = in_order(4, 64, 8), Terms(1, 50, 0)
        coming = expected(shares[:60], terms)
        found = plan(coming, current, prices, terms)
        saved = 0.0
        for step in shares[60:]:
            for layer in range(4):
                before, after = (
                    max(sum(step[layer, expert] for expert in rank) for rank in placed.experts[layer].tolist())
                    for placed in (current, found.change.placement)
                )
                saved += 8 * (before - after) / 50
        promised = float((current.load_factors(coming.shares) - found.change.load_factors).sum())
        told.append(found.realised_fraction)
        kept.append(saved / promised)
    assert np.mean(told) == pytest.approx(np.mean(kept), abs=0.1)


def test_the_trigger_is_the_load_at_which_as_many_moves_pay_again() -> None:
    shares = traced("walk", 0, 60)
    prices = Prices(0.5, 0.2, 0.2, 0.0, 0.0, 1.0, 1.0, 0, np.array([0, 0, 1, 1]))
    terms = Terms(1, 50, 0)
    found = plan(expected(shares, terms), in_order(4, 64, 8), prices, terms)
    trigger = replan(found, prices, terms)
    assert trigger is not None
    moved = found.change.moved.inside_of_rank * 0.2
    said = found.coming.shares
    ranks = 8 * said[np.arange(4)[:, None, None], found.change.placement.experts].sum(axis=2).max(axis=1)
    excess = trigger.above_excess - float((ranks - np.maximum(8 * said.max(axis=1), 1.0)).mean())
    assert trigger.above_load - float(found.change.load_factors.mean()) == pytest.approx(excess)
    assert 50 * 4 * 0.5 * excess == pytest.approx(max(moved[:2].sum(), moved[2:].sum()))
    assert trigger.after_steps is not None
    dear = Prices(0.5, 1e6, 1e6, 0.0, 0.0, 1.0, 1.0, 0, np.array([0, 0, 1, 1]))
    assert replan(plan(expected(shares, terms), in_order(4, 64, 8), dear, terms), dear, terms) is None
