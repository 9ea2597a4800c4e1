"""One family's errors with runs left out of the fit only, from its shipped constants and one set of derivatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibration.files.calibrations import Calibration
from calibration.fitting.robust_fit import Fitted, Floats, Observation, left_out_log_errors, linearised
from calibration.procedure.free_constants import free_constants
from calibration.splits.groups import architecture
from cost_models.constants import prior_constants
from cost_models.shapes.flops import model_flops_per_step
from documents.late_methods import dataclass

# Largest cluster in a fit without large ones, by family: two runs on Ascend have more than 64 devices.
SMALL_DEVICES = {"ascend": 16, "gpu": 64}


@dataclass(frozen=True)
class Splits:
    """ln(predicted / measured) of every observation under constants fitted to fewer and fewer runs. ``[observation]`` each.

    ``utilisation`` is the baseline: one utilisation constant for all runs, fitted to them, instead of this model. ``prior`` uses
    no run, ``fitted`` all. The others leave out the run's architecture, or all runs above ``small_devices`` devices, and are
    meant for those runs. Priors and tuned numbers of modules stay; ``leave_out.family_errors`` resets these as well.
    """

    fitted_model: Fitted
    utilisation: Floats
    prior: Floats
    fitted: Floats
    architecture: Floats
    small: Floats
    small_devices: int

    @property
    def is_large(self) -> np.ndarray:
        """Which observations ``small`` leaves out. ``[observation]``"""
        return np.array([o.record.workload.cluster.num_devices > self.small_devices for o in self.fitted_model.observations])


def splits_of(calibration: Calibration, observations: Sequence[Observation]) -> Splits:
    """The splits of a family's calibration over the observations that it was fitted to."""
    start = prior_constants(calibration.family)
    names = free_constants(calibration.family, [o.record.workload.software.stack for o in observations])
    values = {entry.name: entry.value for entry in calibration.fitted}
    fitted = linearised(observations, start, names, np.log([values[name] for name in names]))
    records = [o.record for o in observations]
    small_devices = SMALL_DEVICES[calibration.family]
    large = ["large" if r.workload.cluster.num_devices > small_devices else None for r in records]
    return Splits(
        fitted_model=fitted,
        utilisation=_utilisation_log_errors(observations),
        prior=np.array([o.log_error(start) for o in observations]),
        fitted=fitted.log_errors,
        architecture=left_out_log_errors(fitted, [architecture(r) for r in records]),
        small=left_out_log_errors(fitted, large),
        small_devices=small_devices,
    )


def _utilisation_log_errors(observations: Sequence[Observation]) -> Floats:
    """Errors of model FLOPs over peak and one utilisation, the geometric median over the observations."""
    at_peak = []
    for observation in observations:
        workload, measured_s = observation.record.workload, observation.record.measured.step_time_s
        assert measured_s is not None
        cluster = workload.cluster
        rates = cluster.profile.matmul_flops_per_s
        rate = rates.get(workload.training.precision) or max(rates.values())
        at_peak.append(float(model_flops_per_step(workload)) / (cluster.num_devices * rate * measured_s))
    logs = np.log(np.array(at_peak))
    centred: Floats = logs - np.median(logs)
    return centred
