"""Nodes that do not fail but run slowly until somebody notices: every step waits for the slowest."""

from __future__ import annotations

import math


def slow_share(slowdowns_per_s: float, noticed_after_s: float) -> float:
    """Fraction of time in which a node of the job is slow.

    Parameters
    ----------
    slowdowns_per_s : float, events a second
        Of all nodes of the job.
    noticed_after_s : float, seconds
        Until a slow node is taken out, in the mean.

    Returns
    -------
    float
        1 - exp(-n), with n slow nodes in the mean (an infinite-server queue).
    """
    return -math.expm1(-slowdowns_per_s * noticed_after_s)


def rate_left(slowdowns_per_s: float, noticed_after_s: float, slowdown_fraction: float) -> float:
    """Rate of the job over that without slow nodes.

    Parameters
    ----------
    slowdowns_per_s : float, events a second
        Of all nodes of the job.
    noticed_after_s : float, seconds
        Until a slow node is taken out, in the mean.
    slowdown_fraction : float
        By which a step is longer while one is slow.

    Returns
    -------
    float
        From 0 to 1.
    """
    slow = slow_share(slowdowns_per_s, noticed_after_s)
    return 1.0 - slow + slow / (1.0 + slowdown_fraction)
