"""What is asked of many placements at once is what each of them needs alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.strategy import ParallelStrategy, Placement, Schedule, StrategyBatch
from cost_models.shapes.workload import ModelShape
from cost_models.step.composition import estimate
from cost_models.step.placing import Alternatives, fitting, least_peaks_bytes
from cost_models.step.priced_groups import priced_batch
from tests.oracle.placements import layouts
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
PREDICTING = replace(MOE, name="predicting", num_layers=8, mtp_num_layers=1)


@pytest.mark.parametrize(
    "model", [replace(DENSE, num_layers=8), replace(MOE, num_layers=8), PREDICTING], ids=lambda each: each.name
)
@pytest.mark.parametrize(("pp", "vpp"), [(2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_no_placement_needs_less_than_the_mean_of_what_ranks_keep(model: ModelShape, pp: int, vpp: int, optimizer: str) -> None:
    job = workload(model, num_devices=8, global_batch_size=16)
    job = replace(job, training=replace(job.training, optimizer=Optimizer(optimizer)))
    schedule = Schedule.ONE_F_ONE_B if vpp == 1 else Schedule.INTERLEAVED
    one = ParallelStrategy(pp=pp, vpp=vpp, dp=8 // pp, schedule=schedule)
    (least,) = least_peaks_bytes(priced_batch(job, StrategyBatch.of([one]), CONSTANTS))
    modules = (0, 1) if model.mtp_num_layers else (0,)
    placed = [
        replace(one, layer_layout=layout, mtp_before_head=before)
        for layout in layouts(8, pp, vpp)
        for before in modules
        if not before or layout[-1][-1] == 0
    ]
    peaks = estimate(job, StrategyBatch.of(placed), CONSTANTS).peak_memory_bytes
    assert least <= peaks.min()
    assert least > 0.1 * peaks.min()


@pytest.mark.parametrize("number", [1, 80])
def test_room_of_many_placements_is_that_of_each_alone(number: int) -> None:
    job = workload(PREDICTING, num_devices=8, global_batch_size=16)
    one = ParallelStrategy(pp=2, vpp=2, dp=4, schedule=Schedule.INTERLEAVED)
    placements = [
        Placement(layout, before) for layout in layouts(8, 2, 2) for before in (0, 1) if not before or not layout[-1][-1]
    ]
    priced = priced_batch(job, StrategyBatch.of([one] * number), CONSTANTS)
    alternatives = Alternatives.of(priced, placements)
    batch = StrategyBatch.of([replace(one, **placement._asdict()) for placement in placements])
    for placement, peak in enumerate(estimate(job, batch, CONSTANTS).peak_memory_bytes.tolist()):
        for factor, fits in ((1.0 + 1e-9, True), (1.0 - 1e-9, False)):
            assert (fitting(priced, alternatives, limit_bytes=factor * peak)[placement] == fits).all()
