"""Forecasts by hand, and the one that is nearest on held-back steps is taken."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.shapes.expert_spread import ExpertSpread, expert_spread
from cost_models.shapes.router_balance import RouterBalance
from search.experts.forecasting import autoregression, exponential_average, forecast, held_back_steps, window
from search.experts.generated import generated_counts


def of(*first: float) -> np.ndarray:
    """Shares of the first of two experts, step by step, in one layer."""
    return np.array([[[share, 1.0 - share]] for share in first])


def test_a_window_is_the_mean_of_as_many_steps_as_come() -> None:
    assert window(of(0.9, 0.2, 0.4), 2)[0, 0] == pytest.approx(0.3)


def test_an_exponential_average_counts_older_steps_less() -> None:
    # (1 * 0.5 + 0.9 * 0.1) / 1.9
    assert exponential_average(of(0.1, 0.5), 1)[0, 0] == pytest.approx(0.59 / 1.9)


def test_an_autoregression_returns_to_the_mean_as_it_did() -> None:
    # Off the mean of 0.5 by 0.2, -0.1, -0.1: (-0.02 + 0.01) / (0.04 + 0.01) is negative, so nothing is kept.
    assert autoregression(of(0.7, 0.4, 0.4), 1)[0, 0] == pytest.approx(0.5)
    # Off the mean of 0.5 by -0.2, -0.1, 0.1, 0.2: (0.02 - 0.01 + 0.02) / (0.04 + 0.01 + 0.01) = 1 / 2 of the last 0.2 comes next.
    assert autoregression(of(0.3, 0.4, 0.6, 0.7), 1)[0, 0] == pytest.approx(0.5 + 0.1)
    # Of two steps the mean of 1 / 2 and 1 / 4.
    assert autoregression(of(0.3, 0.4, 0.6, 0.7), 2)[0, 0] == pytest.approx(0.5 + 0.2 * 0.375)


def test_a_jump_is_followed_by_the_method_that_forgets() -> None:
    found = forecast(of(*[0.9] * 30, *[0.2] * 8), held_back=4)
    assert found.method == "window"
    assert found.errors["window"] == pytest.approx(0.0)
    assert found.errors["exponential_average"] > 0.1
    assert found.shares[0].tolist() == pytest.approx([0.2, 0.8])


def test_few_steps_hold_nothing_back() -> None:
    assert [held_back_steps(number) for number in (1, 2, 3, 10, 100)] == [0, 0, 1, 2, 20]
    assert held_back_steps(100, 7) == 7
    found = forecast(of(0.2, 0.4), 0)
    assert (found.method, found.errors) == ("mean", {})
    assert found.shares[0, 0] == pytest.approx(0.3)


def test_a_trace_has_the_spread_of_its_router_and_its_seed() -> None:
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, 64)
    counts = generated_counts(spread, 400, 2, 10**7)
    assert (counts.sum(axis=2) == 10**7).all()
    shares = counts[0] / counts[0].mean(axis=1, keepdims=True)
    # A little less varied than free weights: each domain's shares have a fixed sum.
    assert float((shares**2).mean() - 1.0) == pytest.approx(spread.expert_variance, rel=0.1)
    # Contiguous ranks of a mixture of four domains, by the same spread without a draw.
    fullest = shares.reshape(400, 16, 4).mean(axis=2).max(axis=1).mean()
    assert fullest == pytest.approx(float(spread.load_factor(16)), rel=0.03)
    np.testing.assert_array_equal(counts, generated_counts(spread, 400, 2, 10**7))
    assert (counts != generated_counts(spread, 400, 2, 10**7, seed=1)).any()


def test_loads_drift_early_and_hardly_later() -> None:
    spread = ExpertSpread(RouterBalance.AUXILIARY_LOSS, 32, base_sd=0.0, domain_sd=0.7)

    def change(*, early: bool) -> float:
        counts = generated_counts(spread, 50, 101, 10**9, num_domains=1, early=early)
        logs = np.log(counts[[0, -1]] / counts.sum(axis=2, keepdims=True)[[0, -1]])
        return float(np.std(logs[1] - logs[0]))

    # sd of ln w(t + 100) - ln w(t) = s sqrt(2 (1 - kept^100)): 0.7 sqrt(2 * 0.0952) = 0.305.
    assert change(early=True) == pytest.approx(0.305, rel=0.1)
    assert change(early=False) == pytest.approx(0.7 * (2 * 5e-5) ** 0.5, rel=0.15)
