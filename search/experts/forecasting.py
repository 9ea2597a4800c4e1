"""Forecasts of expert loads over the steps that a plan serves; the method is chosen by its rolling errors in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from search.experts.packing import Floats

KEPT = 0.9  # weight of the old average at each step [mindspeed-expert-placement, planner.py]
LEAST_STEPS = 3  # one to score, and two before it
LINE_STEPS = 20  # the straight line goes through so many last steps
SMOOTHED_STEPS = 60  # older steps hardly weigh
SMOOTHINGS = np.array(list(product((0.1, 0.3, 0.6), (0.05, 0.2), (0.8, 0.9, 0.98))))  # weights of level and trend, damping
MAX_ORIGINS = 8  # steps of the log from which each method forecasts again
MAX_SCORED = 4096  # experts of all layers that score the methods
BEYOND_NOISE = 2.0  # standard errors by which a method must beat persistence

Method = Callable[[Floats, int], Floats]


@dataclass(frozen=True)
class Forecast:
    """Shares of each layer's tokens by expert, ``[layer, expert]``: the mean of the next ``horizon`` steps.

    ``rolling_errors`` is the share of tokens that each method gave to the wrong experts when it forecast from earlier steps of
    the log; it chose ``method``. ``earlier`` is the forecast, chosen in the same way, before the ``held_back`` last steps of
    ``all_shares`` ``[step, layer, expert]``, and ``errors`` are those of all methods in them. Without held-back steps, ``method``
    is the mean of all.
    """

    all_shares: Floats
    held_back: int
    earlier: Floats | None
    shares: Floats
    method: str
    errors: Mapping[str, float]
    horizon: int = 1
    rolling_errors: Mapping[str, float] | None = None


def held_back_steps(num_steps: int, horizon: int, wanted: int | None = None) -> int:
    """The number of last steps that judge a plan: its horizon, or half the log; 0 where there are too few steps."""
    if num_steps < LEAST_STEPS:
        return 0
    return max(1, min(horizon, num_steps // 2)) if wanted is None else wanted


def forecast(shares: Floats, held_back: int, horizon: int | None = None) -> Forecast:
    """The forecast of the next ``horizon`` steps (default: as many as are held back) from the ``shares`` of a log."""
    horizon = horizon or max(held_back, 1)
    if not held_back:
        return Forecast(shares, 0, None, shares.mean(axis=0), "mean", {}, horizon)
    earlier, later = shares[:-held_back], shares[-held_back:]
    chosen = choice(earlier, held_back)[0]
    said = {name: method(earlier, held_back) for name, method in METHODS.items()}
    errors = {name: float(np.abs(one - later).sum(axis=-1).mean() / 2.0) for name, one in said.items()}
    best, rolling = choice(shares, horizon)
    return Forecast(shares, held_back, said[chosen], METHODS[best](shares, horizon), best, errors, horizon, rolling)


def choice(shares: Floats, horizon: int) -> tuple[str, dict[str, float]]:
    """The method with the smallest rolling error in a log ``[step, layer, expert]``, and the errors of all.

    Each method forecasts from several steps of the log, each time as far as ``horizon`` or a third of the log. A method that does
    not beat persistence by more than the noise of the difference leaves it in place. Experts err almost independently, so that
    noise is that of their sum.
    """
    shares = shares[:, :: -(-shares[0].size // MAX_SCORED)]
    num_steps = len(shares)
    reach = max(1, min(horizon, num_steps // 3))
    last = num_steps - reach
    origins = np.unique(np.linspace(max(1, min(last, num_steps // 3)), last, MAX_ORIGINS).astype(int))
    errors = {
        name: np.mean(
            [np.abs(method(shares[:at], reach) - shares[at : at + reach]).mean(axis=0) for at in origins.tolist()], axis=0
        )
        for name, method in METHODS.items()
    }  # [layer, expert]
    means = {name: float(error.sum(axis=-1).mean() / 2.0) for name, error in errors.items()}
    best = min(means, key=means.__getitem__)  # the first of equals
    gained = errors["persistence"] - errors[best]
    noise = float(gained.std() / np.sqrt(gained.size))
    return (best if float(gained.mean()) > BEYOND_NOISE * noise else "persistence"), means


def persistence(shares: Floats, horizon: int) -> Floats:
    """The last step, as if nothing changed."""
    found: Floats = shares[-1]
    return found


def window(shares: Floats, horizon: int) -> Floats:
    """The mean of the last ``horizon`` steps, as many as are forecast [expert-load-prediction]."""
    found: Floats = shares[-horizon:].mean(axis=0)
    return found


def exponential_average(shares: Floats, horizon: int) -> Floats:
    """The moving average of all steps, which keeps ``KEPT`` a step [mindspeed-expert-placement, planner.py]."""
    weights = KEPT ** np.arange(len(shares) - 1, -1, -1.0)
    found: Floats = np.tensordot(weights / weights.sum(), shares, axes=1)
    return found


def autoregression(shares: Floats, horizon: int) -> Floats:
    """The mean of the next ``horizon`` steps if each expert returns to its mean at the rate of its layer (least squares)."""
    mean = shares.mean(axis=0)
    off = shares - mean
    before = (off[:-1] ** 2).sum(axis=(0, 2))
    follows = (off[:-1] * off[1:]).sum(axis=(0, 2))
    kept = np.clip(np.divide(follows, before, out=np.zeros_like(before), where=before > 0), 0.0, 1.0)
    reach = (kept[:, None] ** np.arange(1, min(horizon, 10_000) + 1)).mean(axis=1)
    found: Floats = mean + reach[:, None] * off[-1]
    return found


def line(shares: Floats, horizon: int) -> Floats:
    """The mean of a straight line through the last ``LINE_STEPS`` steps, continued at most as far as the log goes back."""
    last = shares[-LINE_STEPS:]
    at = np.arange(len(last)) - (len(last) - 1) / 2.0
    slope = np.tensordot(at, last, axes=1) / max(float((at**2).sum()), 1.0)
    return _as_shares(last.mean(axis=0) + slope * (at[-1] + _mean_reach(np.ones(1), len(shares), horizon)[0]))


def damped_trend(shares: Floats, horizon: int) -> Floats:
    """The mean of a level with a trend that fades by a factor a step, from the last steps [gardner-mckenzie1985].

    Weights and factor are those with the smallest squared errors one step ahead, over all layers.
    """
    last = shares[-SMOOTHED_STEPS:]
    values = last.reshape(len(last), -1)
    off, level, trend = _smoothing(len(last))
    errors = np.einsum("csi,ij,csj->c", off, values @ values.T, off, optimize=True)
    best = int(errors.argmin())
    weights = level[best] + trend[best] * _mean_reach(SMOOTHINGS[best, 2:], len(shares), horizon)[0]
    return _as_shares(np.tensordot(weights, last, axes=1))


@lru_cache(maxsize=64)
def _smoothing(num_steps: int) -> tuple[Floats, Floats, Floats]:
    """The smoothing of a log as weights of its steps, for each row of ``SMOOTHINGS``.

    The error one step ahead at each step ``[row, step, weight]``, and the level and the trend after the last, ``[row, weight]``.
    """
    steps = np.eye(num_steps)
    level_weight, trend_weight, damping = SMOOTHINGS.T[:, :, None]
    level, trend = np.tile(steps[0], (len(SMOOTHINGS), 1)), np.zeros((len(SMOOTHINGS), num_steps))
    errors = np.zeros((len(SMOOTHINGS), num_steps, num_steps))
    for number in range(1, num_steps):
        said = level + damping * trend
        off = steps[number] - said
        errors[:, number] = off
        trend = damping * trend + level_weight * trend_weight * off
        level = said + level_weight * off
    return errors, level, trend


def _mean_reach(damping: Floats, num_steps: int, horizon: int) -> Floats:
    """Mean over the next ``horizon`` steps of the sum of ``damping`` to the powers 1, 2, ..., up to ``num_steps`` steps on."""
    ahead = min(horizon, num_steps)
    sums = np.cumsum(damping[:, None] ** np.arange(1, ahead + 1), axis=1)
    found: Floats = (sums.sum(axis=1) + (horizon - ahead) * sums[:, -1]) / horizon
    return found


def _as_shares(values: Floats) -> Floats:
    """Shares without those below zero."""
    positive = np.maximum(values, 0.0)
    found: Floats = positive / positive.sum(axis=-1, keepdims=True)
    return found


METHODS: dict[str, Method] = {
    "persistence": persistence,
    "window": window,
    "exponential_average": exponential_average,
    "autoregression": autoregression,
    "line": line,
    "damped_trend": damped_trend,
}
