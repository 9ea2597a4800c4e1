"""Nodes that run slowly until somebody notices; every step waits for the slowest node."""

from __future__ import annotations

import math


def slow_share(slowdowns_per_s: float, noticed_after_s: float) -> float:
    """Fraction of time in which a node of the job is slow: 1 - exp(-n) with n slow nodes in the mean (an infinite-server queue).

    ``slowdowns_per_s`` is the rate for all nodes of the job. ``noticed_after_s`` is the mean time until a slow node is removed.
    """
    return -math.expm1(-slowdowns_per_s * noticed_after_s)


def rate_left(slowdowns_per_s: float, noticed_after_s: float, slowdown_fraction: float) -> float:
    """Rate of the job as a fraction of that without slow nodes. One slow node makes a step longer by ``slowdown_fraction``."""
    slow = slow_share(slowdowns_per_s, noticed_after_s)
    return 1.0 - slow + slow / (1.0 + slowdown_fraction)
