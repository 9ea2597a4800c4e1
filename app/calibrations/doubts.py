"""The interval of a step time with the doubts that come from a job and a plan: assumed routing, and Adam on the host."""

from __future__ import annotations

from calibration.intervals.step_time import faster_end, slower_end
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import host_update_fractions


def doubts_routing(workload: Workload) -> bool:
    """Whether the spread of tokens over experts is assumed."""
    spread = workload.training.expert_spread
    return spread is not None and spread.assumed


def with_doubts(
    workload: Workload, ratios: tuple[float, float], *, uneven_fraction: float, on_host_fraction: float
) -> tuple[float, float]:
    """Lower and upper end of an interval over its prediction.

    Parameters
    ----------
    ratios
        Both ends over the prediction, from measured runs alone.
    uneven_fraction
        What uneven experts may add, over the step; 0 where their routing is known (``doubts_routing``).
    on_host_fraction
        The optimizer's share of the step, if Adam runs on the host.
    """
    least, most = host_update_fractions(workload)
    slower = uneven_fraction + (most - 1.0) * on_host_fraction
    return faster_end(ratios[0], (1.0 - least) * on_host_fraction), slower_end(ratios[1], slower)
