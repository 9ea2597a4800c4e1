"""Runs that would reduce the variance of a job's predicted time most, per device-second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.files.calibrations import Calibration
from calibration.fitting.error_scale import ERROR_SCALE
from calibration.procedure.free_constants import SITE_LOG_SPREAD, site_constants
from cost_models.constants import CONSTANTS, Constants
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

STEP_OF_LOG = 0.02  # step of a constant's logarithm, for derivatives of a log step time


@dataclass(frozen=True)
class Lesson:
    """One chosen run: its index among the candidates, and the variance of the job's log step time before and after it."""

    index: int
    variance_before: float
    variance_after: float


@dataclass(frozen=True)
class Uncertainty:
    """Normal errors of log constants and of the site, ``[name + 1]``: the last entry is one factor on all of the site's times.

    ``covariance`` is the covariance of the fit (Laplace), plus the spread of a site's constants around its family's. A constant
    that was not fitted has the spread of its source alone, as in the fit of a site.
    """

    names: tuple[str, ...]
    covariance: Floats

    def variance(self, gradient: Floats) -> float:
        """Variance of a log step time with this ``gradient``, which ``log_gradient`` returns."""
        return float(gradient @ self.covariance @ gradient)


def site_uncertainty(calibration: Calibration, stack: str) -> Uncertainty:
    """Uncertainty of a site before its first run, for the constants that its runs of this stack may move."""
    fitted = {entry.name: place for place, entry in enumerate(calibration.fitted)}
    names = site_constants(calibration.family, stack)
    of_source = {constant.name: constant.log_spread for constant in CONSTANTS}
    covariance = np.diag([0.0 if name in fitted else of_source[name] ** 2 for name in names] + [SITE_LOG_SPREAD**2])
    places = [place for place, name in enumerate(names) if name in fitted]
    known = [fitted[names[place]] for place in places]
    covariance[np.ix_(places, places)] = calibration.covariance[np.ix_(known, known)] + SITE_LOG_SPREAD**2 * np.eye(len(known))
    return Uncertainty(names, covariance)


def moved_constants(constants: Constants, names: Sequence[str]) -> list[Constants]:
    """The constants, then the same with each of ``names`` one step higher, or lower at the end of its range."""
    highest = {constant.name: constant.high for constant in CONSTANTS}
    found = [constants]
    for name in names:
        value = getattr(constants, name)
        up = value * np.exp(STEP_OF_LOG) <= highest[name]
        found.append(constants.with_values({name: float(value * np.exp(STEP_OF_LOG if up else -STEP_OF_LOG))}))
    return found


def log_gradient(constants: Sequence[Constants], names: Sequence[str], step_times_s: Floats) -> Floats:
    """Derivatives of ln(step time) by the logarithm of each constant, then by the site's factor. ``[run, name + 1]``

    ``step_times_s`` has a row for each of ``moved_constants``. ``[1 + name, run]``
    """
    steps = [np.log(getattr(moved, name) / getattr(constants[0], name)) for moved, name in zip(constants[1:], names, strict=True)]
    moved = np.log(step_times_s[1:] / step_times_s[0]) / np.array(steps)[:, None]
    return np.vstack([moved, np.ones(step_times_s.shape[1])]).T


def lessons(uncertainty: Uncertainty, of_job: Floats, of_runs: Floats, device_s: Floats, how_many: int = 3) -> tuple[Lesson, ...]:
    """The next runs, in order: each reduces the variance most per device-second, given those before it.

    A run of gradient g, measured with an error of variance v (``ERROR_SCALE`` squared), takes (t' C g)^2 / (g' C g + v) off the
    variance t' C t of the job, and leaves C - C g g' C / (g' C g + v). Ties go to the first of the list.
    """
    covariance = uncertainty.covariance.copy()
    found: list[Lesson] = []
    open_runs = np.ones(len(of_runs), dtype=np.bool_)
    for _ in range(min(how_many, len(of_runs))):
        spread = of_runs @ covariance  # [run, name + 1]
        own = np.einsum("ij,ij->i", spread, of_runs) + ERROR_SCALE**2
        gain = (spread @ of_job) ** 2 / own
        best = int(np.argmax(np.where(open_runs, gain / device_s, -np.inf)))
        before = max(float(of_job @ covariance @ of_job), 0.0)  # rounding may make it negative
        covariance = covariance - np.outer(spread[best], spread[best]) / own[best]
        open_runs[best] = False
        found.append(Lesson(best, before, max(float(of_job @ covariance @ of_job), 0.0)))
    return tuple(found)
