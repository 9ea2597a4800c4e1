"""The shipped calibrations belong to this version of the model and to these runs."""

import numpy as np
import pytest

from calibration.calibrate import family_observations, free_constants
from calibration.files import shipped_calibration
from calibration.fitting import linearised, next_step
from calibration.run_records import RefusedRecord, RunRecord
from cost_models.constants import prior_constants

MAX_STEP = 0.01  # of a constant's logarithm: what the fit itself takes as converged


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ascend"], indirect=True, scope="session")
def test_a_further_step_of_the_fit_moves_no_constant(family: str, records: list[RunRecord | RefusedRecord]) -> None:
    calibration = shipped_calibration(family)
    observations = family_observations([r for r in records if isinstance(r, RunRecord)], family)
    assert len(observations) == calibration.num_runs
    names = free_constants(family, [o.record.workload.software.stack for o in observations])
    values = {entry.name: entry.value for entry in calibration.fitted}
    fitted = linearised(observations, prior_constants("ascend"), names, np.log([values[name] for name in names]))
    steps = dict(zip(names, next_step(fitted).tolist(), strict=True))
    assert {name: step for name, step in steps.items() if abs(step) > MAX_STEP} == {}


def test_the_runs_behind_a_shipped_calibration_are_counted(family: str, records: list[RunRecord | RefusedRecord]) -> None:
    observations = family_observations([r for r in records if isinstance(r, RunRecord)], family)
    assert len(observations) == shipped_calibration(family).num_runs
