"""Turning points: how wrong a number must be for another plan to be the better one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from search.plans.estimator import Estimator
from search.sensitivity.quantities import Scaled, quantities

WIDEST = 3.0  # largest factor
STEPS = 6  # factors tried on each side, evenly in the logarithm, before bisection
BISECTIONS = 10


def turning_points(
    workload: Workload, first: ParallelStrategy, other: ParallelStrategy, constants: Constants, estimate: Estimator
) -> list[dict[str, Any]]:
    """Nearest factor on each quantity at which ``other`` is as fast as ``first``; smallest change first, as JSON.

    A factor multiplies a rate and divides a time. Quantities without a turning point within ``WIDEST`` are left out.
    """
    batch = StrategyBatch.of([first, other])

    def lead(scaled: Scaled, factor: float) -> float:
        changed, changed_constants = scaled(factor)
        times = estimate(changed, batch, changed_constants).step_time_s
        return float(math.log(times[1] / times[0]))

    found = []
    for quantity, scaled in quantities(workload, constants):

        def at(place: float, of: Scaled = scaled) -> float:
            return lead(of, math.exp(place))

        places = [place for side in (1.0, -1.0) if (place := _crossing(at, side)) is not None]
        if places:
            nearest = min(places, key=abs)
            found.append({"quantity": quantity, "factor": math.exp(nearest)})
    return sorted(found, key=lambda entry: abs(math.log(entry["factor"])))


def _crossing(lead: Callable[[float], float], side: float) -> float | None:
    """The logarithm nearest to 0, on one side, at which the lead is gone."""
    inner = 0.0
    for step in range(1, STEPS + 1):
        outer = side * math.log(WIDEST) * step / STEPS
        if lead(outer) <= 0.0:
            for _ in range(BISECTIONS):
                middle = (inner + outer) / 2.0
                inner, outer = (inner, middle) if lead(middle) <= 0.0 else (middle, outer)
            return outer
        inner = outer
    return None
