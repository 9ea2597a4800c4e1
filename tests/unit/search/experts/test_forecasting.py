"""Forecasts by hand and by plain loops; the chosen one is never worse than persistence, and follows a trend."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.shapes.expert_spread import ExpertSpread, expert_spread
from cost_models.shapes.router_balance import RouterBalance
from search.experts.forecasting import (
    LINE_STEPS,
    METHODS,
    autoregression,
    choice,
    damped_trend,
    exponential_average,
    forecast,
    held_back_steps,
    line,
    window,
)
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


def test_a_line_is_that_of_least_squares() -> None:
    random = np.random.default_rng(5)
    shares = random.dirichlet(np.full(6, 50.0), (30, 2)) + np.linspace(0.0, 0.1, 30)[:, None, None] * np.array(
        [1, -1, 0, 0, 0, 0]
    )
    shares = np.maximum(shares, 1e-3) / np.maximum(shares, 1e-3).sum(axis=-1, keepdims=True)
    ahead = []
    for number in range(LINE_STEPS, LINE_STEPS + 4):
        fits = np.polyfit(np.arange(LINE_STEPS), shares[-LINE_STEPS:].reshape(LINE_STEPS, -1), 1)
        ahead.append(np.maximum(fits[0] * number + fits[1], 0.0).reshape(2, 6))
    np.testing.assert_allclose(line(shares, 4), np.mean(ahead, axis=0), rtol=1e-9)


def test_a_damped_trend_is_the_best_of_plain_recursions() -> None:
    """Holt's recursion in a loop over steps and experts, every choice of weights and damping."""
    random = np.random.default_rng(2)
    shares = np.abs(
        random.normal(0.0, 0.02, (15, 1, 3)) + np.array([0.5, 0.3, 0.2]) + np.arange(15)[:, None, None] * [0.01, -0.01, 0.0]
    )
    shares /= shares.sum(axis=-1, keepdims=True)
    best: tuple[float, list[float]] = (np.inf, [])
    for level_weight in (0.1, 0.3, 0.6):
        for trend_weight in (0.05, 0.2):
            for damping in (0.8, 0.9, 0.98):
                error, means = 0.0, []
                for expert in range(3):
                    values = shares[:, 0, expert].tolist()
                    level, trend = values[0], 0.0
                    for value in values[1:]:
                        said = level + damping * trend
                        error += (value - said) ** 2
                        new = level_weight * value + (1.0 - level_weight) * said
                        trend = trend_weight * (new - level) + (1.0 - trend_weight) * damping * trend
                        level = new
                    ahead = [level + trend * sum(damping**k for k in range(1, step + 1)) for step in (1, 2, 3)]
                    means.append(sum(ahead) / 3)
                if error < best[0]:
                    best = error, means
    assert damped_trend(shares, 3)[0].tolist() == pytest.approx([value / sum(best[1]) for value in best[1]], rel=1e-9)


def test_a_trend_goes_on_no_longer_than_it_was_seen() -> None:
    shares = of(0.1, 0.12, 0.14, 0.16)
    # Steps 5 to 8 have 0.18 to 0.24, and all later ones 0.24.
    assert line(shares, 1000)[0, 0] == pytest.approx((0.18 + 0.20 + 0.22 + 997 * 0.24) / 1000)


def traced(kind: str, seed: int, num_steps: int) -> np.ndarray:
    """Shares of 4 layers of 64 experts whose logarithms walk, follow a trend, return to a mean, or are noise."""
    random = np.random.default_rng(seed)
    shape = (num_steps, 4, 64)
    logs = random.normal(0.0, 0.5, shape[1:]) + np.zeros(shape)
    if kind == "walk":
        logs += np.cumsum(random.normal(0.0, 0.03, shape), axis=0)
    elif kind == "trend":
        logs += np.arange(num_steps)[:, None, None] * random.normal(0.0, 0.01, shape[1:]) + random.normal(0.0, 0.03, shape)
    elif kind == "reverting":
        off = random.normal(0.0, 0.3, shape[1:])
        for step in range(num_steps):
            logs[step] += off
            off = 0.9 * off + 0.3 * (1.0 - 0.81) ** 0.5 * random.normal(0.0, 1.0, shape[1:])
    else:
        logs += random.normal(0.0, 0.15, shape)
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("kind", ["walk", "trend", "reverting", "noise"])
@pytest.mark.parametrize(("num_steps", "horizon"), [(60, 12), (60, 50), (120, 50)])
def test_the_chosen_forecast_is_never_worse_than_persistence_and_follows_a_trend(kind: str, num_steps: int, horizon: int) -> None:
    quotients, of_line = [], []
    for seed in range(3):
        shares = traced(kind, seed, num_steps + horizon)
        known, later = shares[:num_steps], shares[num_steps:]

        def error(said: np.ndarray, later: np.ndarray = later) -> float:
            return float(np.abs(said - later).sum(axis=-1).mean())

        found = error(METHODS[choice(known, horizon)[0]](known, horizon))
        slope, start = np.polyfit(np.arange(20), known[-20:].reshape(20, -1), 1)
        straight = start + slope * (19 + (horizon + 1) / 2)
        quotients.append(found / error(known[-1]))
        of_line.append(found / error(straight.reshape(known[0].shape)))
    assert np.mean(quotients) <= 1.02
    if kind == "trend":
        assert np.mean(of_line) <= 1.10
        assert np.mean(quotients) < 0.8


def test_after_a_jump_the_last_step_is_taken_not_the_average() -> None:
    found = forecast(of(*[0.9] * 30, *[0.2] * 8), held_back=4, horizon=4)
    assert found.method == "persistence"
    assert found.errors["persistence"] == pytest.approx(0.0)
    assert found.errors["exponential_average"] > 0.1
    assert found.shares[0].tolist() == pytest.approx([0.2, 0.8])


def test_a_plan_is_judged_over_its_steps_or_half_the_log() -> None:
    assert [held_back_steps(number, 50) for number in (1, 2, 3, 10, 60, 100, 1000)] == [0, 0, 1, 5, 30, 50, 50]
    assert held_back_steps(100, 50, 7) == 7
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
