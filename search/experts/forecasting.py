"""Forecasts of expert loads in the next steps: three methods, scored on held-back steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from search.experts.packing import Floats

KEPT = 0.9  # weight of the old average at each step [mindspeed-expert-placement, planner.py]
LEAST_STEPS = 3  # one to score, and two before it
HELD_BACK_FRACTION = 0.2


@dataclass(frozen=True)
class Forecast:
    """Shares of each layer's tokens by expert, ``[layer, expert]``, for the next steps.

    ``errors`` is the share of tokens that each method gave to the wrong experts in the ``held_back`` last steps of ``all_shares``
    ``[step, layer, expert]``; ``earlier`` is the forecast of the chosen method for these. Without held-back steps, ``method`` is
    the mean of all.
    """

    all_shares: Floats
    held_back: int
    earlier: Floats | None
    shares: Floats
    method: str
    errors: Mapping[str, float]


def held_back_steps(num_steps: int, wanted: int | None = None) -> int:
    """The number of last steps that score a forecast; 0 where there are too few steps."""
    if num_steps < LEAST_STEPS:
        return 0
    return max(1, round(num_steps * HELD_BACK_FRACTION)) if wanted is None else wanted


def forecast(shares: Floats, held_back: int) -> Forecast:
    """The forecast of the method with the smallest error on the last ``held_back`` steps of ``shares``."""
    if not held_back:
        return Forecast(shares, 0, None, shares.mean(axis=0), "mean", {})
    earlier, later = shares[:-held_back], shares[-held_back:]
    said = {name: method(earlier, held_back) for name, method in METHODS.items()}
    errors = {name: float(np.abs(one - later).sum(axis=-1).mean() / 2.0) for name, one in said.items()}
    best = min(errors, key=errors.__getitem__)  # the first of equals
    return Forecast(shares, held_back, said[best], METHODS[best](shares, held_back), best, errors)


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
    reach = (kept[:, None] ** np.arange(1, horizon + 1)).mean(axis=1)
    found: Floats = mean + reach[:, None] * off[-1]
    return found


METHODS: dict[str, Callable[[Floats, int], Floats]] = {
    "window": window,
    "exponential_average": exponential_average,
    "autoregression": autoregression,
}
