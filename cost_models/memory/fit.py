"""Whether a predicted peak fits, at a stated confidence and with a stated headroom."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cost_models.constants import Constants, PeakSpread
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

# Each side of the errors is half a Student's t of two degrees of freedom. Its distribution and quantiles have closed forms and
# its tails are heavy: predictions are exact if all memory is modelled, and far off if something is missing [runs-fit].
_TENTH = 0.8 / 0.18**0.5  # the ninth decile, (2p - 1) / (2p (1 - p))^(1/2) at p = 0.9


def log_error_at(spread: PeakSpread, probability: float) -> float:
    """Factor, in natural log, that bounds true peak / predicted peak with this probability.

    Parameters
    ----------
    spread
        The first and last decile of the errors; half of the errors are on either side of 0.
    probability
        Above 0 and below 1.
    """
    side = spread.high if probability >= 0.5 else -spread.low
    units = (2.0 * probability - 1.0) / (2.0 * probability * (1.0 - probability)) ** 0.5
    return float(side * units / _TENTH)


@dataclass(frozen=True)
class FitRule:
    """Rule that decides whether a strategy of one workload fits: its predicted peak must not exceed ``fit_limit_bytes``.

    ``memory_limit_bytes`` is what a job can fill, ``min_headroom_bytes`` must stay free of it, ``confidence`` is the required
    probability of that, ``spread`` the error of predicted peaks.
    """

    memory_limit_bytes: float
    min_headroom_bytes: float
    confidence: float
    spread: PeakSpread

    @property
    def room_bytes(self) -> float:
        """Bytes that the true peak can fill; at least one."""
        return max(self.memory_limit_bytes - self.min_headroom_bytes, 1.0)

    @cached_property
    def fit_limit_bytes(self) -> float:
        """The largest predicted peak that leaves the headroom with the required confidence."""
        return self.room_bytes * float(np.exp(-log_error_at(self.spread, self.confidence)))

    def probability(self, peak_bytes: Floats) -> Floats:
        """Probability that the true peak leaves the headroom; elementwise over predicted peaks.

        At least ``confidence`` if the peak does not exceed ``fit_limit_bytes``.
        """
        spare = _TENTH * (np.log(self.room_bytes) - np.log(peak_bytes))
        side = np.where(spare >= 0.0, self.spread.high, -self.spread.low)
        reach = np.hypot(2.0**0.5 * side, spare)  # for t = spare / side, F(t) = (1 + t / (2 + t^2)^(1/2)) / 2
        chance: Floats = np.where(reach > 0.0, 0.5 + 0.5 * spare / np.where(reach > 0.0, reach, 1.0), 1.0)
        return chance

    def ends_bytes(self, peak_bytes: Floats) -> tuple[Floats, Floats]:
        """The 80 % interval of the true peak; elementwise over predicted peaks. One true peak in ten is beyond either end."""
        return peak_bytes * np.exp(self.spread.low), peak_bytes * np.exp(self.spread.high)


def fit_rule(workload: Workload, constants: Constants) -> FitRule:
    """The rule for this workload, shared by all stages of a search, estimates and checks."""
    room = workload.room
    return FitRule(workload.cluster.profile.usable_hbm_bytes, room.min_headroom_bytes, room.confidence, constants.peak_spread)
