"""Plans for the same model and devices must come out in the order that was measured."""

from collections import defaultdict
from collections.abc import Hashable

import pytest

from calibration.records.training import RefusedRecord, RunRecord
from calibration.validation.plan_order import GAP, PlanGroup, plan_groups, plan_key
from calibration.validation.predictions import ValidationReport
from cost_models.shapes.strategy import Schedule

TOP = 3
MIN_PAIRS = {"ascend": 20, "gpu": 1500}
MIN_ORDERED_FRACTION = {"ascend": 0.90, "gpu": 0.84}
MAX_MISSED_GROUPS = 0.05

Times = list[tuple[float, float]]  # predicted and measured seconds a sample


@pytest.fixture(scope="module")
def groups(records: list[RunRecord | RefusedRecord], report: ValidationReport) -> list[PlanGroup]:
    """Groups of at least two plans. Sweeps that were disturbed are marked suspect in the runs."""
    priced = [
        (record, row.predicted_step_time_s)
        for record, row in zip(records, report.rows, strict=True)
        if isinstance(record, RunRecord) and row.refused is None and row.predicted_step_time_s is not None
    ]
    return plan_groups([record for record, _ in priced], [predicted_s for _, predicted_s in priced])


def test_pairs_of_plans_keep_their_measured_order(family: str, groups: list[PlanGroup]) -> None:
    ordered = [pair for group in groups for pair in group.pairs]
    assert len(ordered) >= MIN_PAIRS[family]
    assert sum(ordered) / len(ordered) >= MIN_ORDERED_FRACTION[family]


@pytest.mark.parametrize("family", ["gpu"], indirect=True, scope="session")
def test_the_measured_best_is_among_the_predicted_top(groups: list[PlanGroup]) -> None:
    missed = 0
    for times in (group.times for group in groups):
        best = min(measured for _, measured in times)
        missed += min(measured for _, measured in sorted(times)[:TOP]) > GAP * best
    assert missed <= MAX_MISSED_GROUPS * len(groups)


@pytest.mark.parametrize("family", ["gpu"], indirect=True, scope="session")
def test_the_measured_best_schedule_of_every_zero_bubble_group_comes_first(
    records: list[RunRecord | RefusedRecord], report: ValidationReport
) -> None:
    sweeps: dict[Hashable, Times] = defaultdict(list)
    schedules: dict[Hashable, set[Schedule]] = defaultdict(set)
    for record, row in zip(records, report.rows, strict=True):
        if isinstance(record, RunRecord) and row.predicted_step_time_s and row.measured_step_time_s:
            training = record.workload.training
            sweep: Hashable = (plan_key(record), record.workload.model.num_layers, training.global_batch_size)
            sweeps[sweep].append((row.predicted_step_time_s, row.measured_step_time_s))
            schedules[sweep].add(record.strategy.schedule)
    zero_bubble = [sweep for sweep, found in schedules.items() if {Schedule.ZB1P, Schedule.ZB2P} <= found]
    assert len(zero_bubble) >= 9
    for sweep in zero_bubble:
        assert min(sweeps[sweep])[1] == min(measured for _, measured in sweeps[sweep])
