"""One number for a cluster: the time factor at which predictions meet measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibration.files.calibrations import Calibration
from calibration.fitting.robust_fit import Floats, Observation
from calibration.splits.mechanisms import run_mechanisms
from cost_models.constants import Constants
from documents.late_methods import dataclass
from documents.sentences import Sentence

LOWEST, HIGHEST = 0.2, 5.0  # bounds of a job's factor
_CLOSE_ENOUGH = 1e-4  # tolerance of a log error
_MOST_TRIES = 12


@dataclass(frozen=True)
class SiteFactor:
    """``value`` is the geometric median of the ``cluster.time_factor`` that would explain each of ``num_runs`` runs.

    ``num_inside`` of them are inside the interval of their prediction without it. If most are, the factor is within the
    model's own error.
    """

    value: float
    num_runs: int
    num_inside: int


def site_factor(observations: Sequence[Observation], base: Calibration, log_errors: Floats) -> SiteFactor:
    """The factor that explains the runs; ``log_errors`` are ln(predicted / measured) without one, ``[observation]``.

    Raises ``ValueError`` without an observation.
    """
    if not observations:
        raise ValueError(Sentence("no run to take a factor from"))
    constants = base.constants
    asked = [_log_factor(o, constants, float(e)) for o, e in zip(observations, log_errors, strict=True)]
    inside = [_is_inside(o, base, float(e)) for o, e in zip(observations, log_errors, strict=True)]
    return SiteFactor(float(np.exp(np.median(asked))), len(observations), sum(inside))


def _log_factor(observation: Observation, constants: Constants, log_error: float) -> float:
    """The log factor at which the log error is zero. Its slope is at most 1, since the factor does not change host time.

    Secant steps inside the bounds; the bound itself if the root is outside.
    """
    lowest, highest = float(np.log(LOWEST)), float(np.log(HIGHEST))
    at, error = 0.0, log_error
    slope = 1.0
    for _ in range(_MOST_TRIES):
        if abs(error) < _CLOSE_ENOUGH:
            break
        there = min(max(at - error / slope, lowest), highest)
        if there == at:
            break
        after = _slowed(observation, float(np.exp(there))).log_error(constants)
        slope = min(max((after - error) / (there - at), 0.05), 1.0)
        at, error = there, after
    return at


def _slowed(observation: Observation, factor: float) -> Observation:
    workload = observation.record.workload
    cluster = replace(workload.cluster, time_factor=workload.cluster.time_factor * factor)
    return replace(observation, record=replace(observation.record, workload=replace(workload, cluster=cluster)))


def _is_inside(observation: Observation, base: Calibration, log_error: float) -> bool:
    """Whether the measured time, 1 s in these units, is inside the interval around the predicted time."""
    record = observation.record
    found = base.interval(record.workload, float(np.exp(log_error)), run_mechanisms(record))
    return found.low_s <= 1.0 <= found.high_s
