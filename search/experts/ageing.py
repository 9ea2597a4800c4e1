"""What remains of a plan's gain as it ages, from the steps of a log that its forecast did not see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from search.experts.packing import Floats

LEAST_AGES = 8  # steps from which a decline is told
SIGNIFICANT = 2.0  # standard errors of a decline


@dataclass(frozen=True)
class Ageing:
    """The realised fraction of a promised gain at each age: ``measured`` ``[step]``, then a line over the root of the age.

    Loads that walk at random leave a plan with the root of its age, faster than loads that return to a mean. ``slope`` is 0 where
    the measured steps show no decline.
    """

    measured: Floats
    start: float
    slope: float

    def mean(self, steps: int) -> float:
        """The fraction over the first ``steps`` steps, from 0 to 1."""
        known = self.measured[:steps]
        total = float(known.sum())
        if steps > len(known):
            begin, end = len(known) + 0.5, steps + 0.5
            if self.slope < 0.0:  # until nothing is left
                end = min(max((self.start / self.slope) ** 2, begin), end) if self.start > 0.0 else begin
            total += self.start * (end - begin) + self.slope * (end**1.5 - begin**1.5) / 1.5
        return min(max(total / steps, 0.0), 1.0)

    def age_of_loss(self, fraction: float) -> float | None:
        """Steps after which ``fraction`` of the promise is lost beside a fresh plan; ``None`` without a decline."""
        return (fraction / self.slope) ** 2 if self.slope < 0.0 else None


FRESH = Ageing(np.ones(0), 1.0, 0.0)  # nothing was held back


def ageing(realised: Floats) -> Ageing:
    """The ageing that ``realised`` fractions ``[step]`` of the steps after a plan show."""
    if len(realised) < LEAST_AGES:
        return Ageing(realised, float(realised.mean()), 0.0)
    roots = np.sqrt(np.arange(1, len(realised) + 1))
    off = roots - roots.mean()
    slope = float(off @ realised / (off @ off))
    start = float(realised.mean() - slope * roots.mean())
    left = realised - start - slope * roots
    error = math.sqrt(float(left @ left) / (len(left) - 2) / float(off @ off))
    if slope >= -SIGNIFICANT * error:
        return Ageing(realised, float(realised.mean()), 0.0)
    return Ageing(realised, start, slope)
