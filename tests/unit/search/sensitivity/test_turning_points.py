"""Where two plans change places, against a scan."""

from dataclasses import replace

import pytest

from calibration.files.calibrations import shipped_calibration
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from search.placement.layer_moves import neighbouring_moves
from search.sensitivity.quantities import quantities
from search.sensitivity.turning_points import WIDEST, turning_points
from tests.workloads import workload


def test_at_its_turning_point_two_plans_take_the_same_time() -> None:
    job = workload()
    constants = shipped_calibration("ascend").constants_of(job)
    first = canonical(job, ParallelStrategy(tp=8, pp=1, dp=job.cluster.num_devices // 8))
    other = canonical(job, ParallelStrategy(tp=1, pp=1, dp=job.cluster.num_devices))
    batch = StrategyBatch.of([first, other])
    times = estimate(job, batch, constants).step_time_s
    if times[1] < times[0]:
        first, other = other, first
        batch = StrategyBatch.of([first, other])
    found = turning_points(job, first, other, constants, estimate)
    scaled = dict(quantities(job, constants))
    for entry in found:
        assert 1.0 / WIDEST <= entry["factor"] <= WIDEST
        changed, changed_constants = scaled[entry["quantity"]](entry["factor"])
        one, two = estimate(changed, batch, changed_constants).step_time_s
        assert two == pytest.approx(one, rel=2e-3)
    for quantity, scale in scaled.items():
        if quantity not in {entry["quantity"] for entry in found}:
            for factor in (0.5, 0.8, 1.25, 2.0):
                changed, changed_constants = scale(factor)
                one, two = estimate(changed, batch, changed_constants).step_time_s
                assert two > one


def test_moves_between_neighbours_keep_every_layer() -> None:
    job = workload()
    plan = canonical(job, ParallelStrategy(tp=1, pp=4, dp=job.cluster.num_devices // 4))
    moves = neighbouring_moves(job, plan)
    assert len(moves) == 6
    for moved, text in moves.items():
        assert moved.layer_layout is not None
        assert sum(map(sum, moved.layer_layout)) == job.model.num_layers
        assert text.startswith("a layer moved from virtual stage ")
        assert replace(moved, layer_layout=plan.layer_layout) == plan
