"""Classes of interruptions of a job: their rate, and the time from each to the next useful step."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from documents.late_methods import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True)
class FailureClass:
    """Interruptions of one kind. They are random; ``rate_per_s`` is the rate for the whole job while it runs.

    ``recovery_s`` is the time from the fault to the next useful step, without lost work. With ``keeps_state`` the work since
    the last checkpoint survives, and the repeated part (at most a step) is in ``recovery_s``. With ``replaces_node`` a node
    leaves for repair.
    """

    name: str
    rate_per_s: float
    recovery_s: float
    keeps_state: bool = False
    replaces_node: bool = False


@dataclass(frozen=True)
class FailureRate:
    """Failures a node-day in a log, with an interval that contains the true rate at ``confidence``."""

    per_node_day: float
    low_per_node_day: float
    high_per_node_day: float
    num_failures: int
    node_days: float
    confidence: float


def poisson_cdf(count: int, mean: float) -> float:
    """Probability that a Poisson variable with this mean is at most ``count``."""
    if count < 0:
        return 0.0
    if mean <= 0:
        return 1.0
    logs = np.arange(count + 1) * math.log(mean) - mean - _log_factorials(count)
    return min(float(np.exp(logs).sum()), 1.0)


@lru_cache(maxsize=4)
def _log_factorials(count: int) -> NDArray[np.float64]:
    """Logarithms of the factorials of 0, 1, ... ``count``."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])


def rate_from_log(num_failures: int, node_days: float, confidence: float = 0.9) -> FailureRate:
    """Maximum-likelihood failure rate of a log, with its exact confidence interval [garwood1936].

    Parameters
    ----------
    num_failures
        Interruptions in the log. 0 is allowed and still gives the upper end.
    node_days
        Nodes times days that the log covers; above zero.
    """
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if num_failures == 0 else _mean_at_level(lambda mean: 1.0 - poisson_cdf(num_failures - 1, mean), tail, num_failures)
    high = _mean_at_level(lambda mean: 1.0 - poisson_cdf(num_failures, mean), 1.0 - tail, num_failures)
    return FailureRate(num_failures / node_days, low / node_days, high / node_days, num_failures, node_days, confidence)


def _mean_at_level(rising: Callable[[float], float], level: float, count: int) -> float:
    """The Poisson mean at which a probability that increases with it reaches ``level``, by bisection."""
    low, high = 0.0, count + 12.0 * math.sqrt(count + 1.0) + 12.0
    for _ in range(64):
        middle = (low + high) / 2.0
        if rising(middle) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0
