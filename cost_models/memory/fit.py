"""Whether a predicted peak fits: one comparison, at a stated confidence and with a stated headroom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cost_models.constants import Constants, PeakSpread
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.workload import Workload

# Either side of the errors is half a Student's t of two degrees of freedom, whose distribution and quantiles are closed and
# whose tails are heavy: memory is arithmetic where all of it is modelled, and far off where something is not [runs-fit].
_TENTH = 0.8 / 0.18**0.5  # its ninth decile: (2p - 1) / (2p (1 - p))^(1/2) at p = 0.9


def log_error_at(spread: PeakSpread, probability: float) -> float:
    """What ln(true peak / predicted peak) stays below with this probability.

    Parameters
    ----------
    spread : PeakSpread
        The tenths at either end of the errors; half of them lie on either side of 0.
    probability : float
        Above 0 and below 1.

    Returns
    -------
    float
    """
    side = spread.high if probability >= 0.5 else -spread.low
    units = (2.0 * probability - 1.0) / (2.0 * probability * (1.0 - probability)) ** 0.5
    return float(side * units / _TENTH)


@dataclass(frozen=True)
class FitRule:
    """What decides whether a strategy of one workload fits: its predicted peak is not above ``fit_limit_bytes``.

    ``memory_limit_bytes`` is what a job may fill, ``min_headroom_bytes`` what the user wants to stay free of it, ``confidence``
    how sure that has to be, ``spread`` how far true peaks lie from predicted ones.
    """

    memory_limit_bytes: float
    min_headroom_bytes: float
    confidence: float
    spread: PeakSpread

    @property
    def room_bytes(self) -> float:
        """What the true peak may fill; at least one byte."""
        return max(self.memory_limit_bytes - self.min_headroom_bytes, 1.0)

    @cached_property
    def fit_limit_bytes(self) -> float:
        """The largest predicted peak that leaves the headroom with the confidence."""
        return self.room_bytes * float(np.exp(-log_error_at(self.spread, self.confidence)))

    def probability(self, peak_bytes: Floats) -> Floats:
        """How likely the true peak leaves the headroom, for each predicted peak; shape of ``peak_bytes``.

        Parameters
        ----------
        peak_bytes : Floats
            Predicted peaks.

        Returns
        -------
        Floats, 0 to 1
            At least ``confidence`` where the peak is not above ``fit_limit_bytes``.
        """
        spare = _TENTH * (np.log(self.room_bytes) - np.log(peak_bytes))
        side = np.where(spare >= 0.0, self.spread.high, -self.spread.low)
        reach = np.hypot(2.0**0.5 * side, spare)  # of t = spare / side, F(t) = (1 + t / (2 + t^2)^(1/2)) / 2
        chance: Floats = np.where(reach > 0.0, 0.5 + 0.5 * spare / np.where(reach > 0.0, reach, 1.0), 1.0)
        return chance

    def ends_bytes(self, peak_bytes: Floats) -> tuple[Floats, Floats]:
        """The 80 % interval of the true peak, for each predicted peak.

        Parameters
        ----------
        peak_bytes : Floats
            Predicted peaks.

        Returns
        -------
        tuple of Floats
            Lower and upper ends; one true peak in ten lies beyond either.
        """
        return peak_bytes * np.exp(self.spread.low), peak_bytes * np.exp(self.spread.high)


def fit_rule(workload: Workload, constants: Constants) -> FitRule:
    """The rule that all stages of a search, estimates and checks of this workload share.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    constants : Constants
        Calibrated values for the hardware family; they say how far predicted peaks may be off.

    Returns
    -------
    FitRule
    """
    room = workload.room
    return FitRule(workload.cluster.profile.usable_hbm_bytes, room.min_headroom_bytes, room.confidence, constants.peak_spread)
