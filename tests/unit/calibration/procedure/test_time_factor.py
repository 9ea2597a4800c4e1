"""The one factor that brings predictions to measured runs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.files.calibrations import shipped_calibration
from calibration.fitting.robust_fit import Observation
from calibration.procedure.time_factor import HIGHEST, SiteFactor, site_factor
from calibration.records.training import RunRecord
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

Read = Callable[..., RunRecord]
BASE = shipped_calibration("ascend")


def observed(read: Read, truth: float, **changes: object) -> Observation:
    """A run of a cluster whose devices and links take ``truth`` times as long, on a host like any other."""
    record = read(changes)
    batch = StrategyBatch.of([record.strategy])
    slow = replace(record.workload, cluster=replace(record.workload.cluster, time_factor=truth))
    step_time_s = float(simulate(slow, batch, BASE.constants).step_time_s[0])
    return Observation(replace(record, measured=replace(record.measured, step_time_s=step_time_s)), batch, 1.0)


def found(*observations: Observation) -> SiteFactor:
    return site_factor(observations, BASE, np.array([o.log_error(BASE.constants) for o in observations]))


@pytest.mark.parametrize("truth", [0.7, 1.0, 1.3, 2.5])
def test_a_slow_cluster_is_found_from_one_run(read: Read, truth: float) -> None:
    run = observed(read, truth)
    factor = found(run)
    assert factor.value == pytest.approx(truth, rel=1e-3)
    # Host time and the fixed cost stay, so that the factor is further from 1 than the ratio of the times.
    ratio = float(np.exp(-run.log_error(BASE.constants)))
    assert abs(np.log(factor.value)) >= abs(np.log(ratio))


def test_the_median_of_several_runs_counts(read: Read) -> None:
    odd = observed(read, 3.0, **{"strategy.tp": 4, "strategy.pp": 2})
    factor = found(observed(read, 1.3), odd, observed(read, 1.3, **{"strategy.tp": 8, "strategy.pp": 1}))
    assert factor.value == pytest.approx(1.3, rel=1e-3)
    assert factor.num_runs == 3


def test_it_says_whether_the_runs_lie_inside_their_intervals(read: Read) -> None:
    assert found(observed(read, 1.02)).num_inside == 1
    assert found(observed(read, 2.0)).num_inside == 0


def test_a_run_that_no_factor_explains_takes_the_bound(read: Read) -> None:
    assert found(observed(read, 9.0)).value == pytest.approx(HIGHEST)


def test_without_a_run_there_is_no_factor() -> None:
    with pytest.raises(ValueError, match="no run"):
        found()
