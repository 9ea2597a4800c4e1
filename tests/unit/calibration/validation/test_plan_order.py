from collections.abc import Callable
from dataclasses import replace

import pytest

from calibration.records.training import RunRecord
from calibration.validation.plan_order import PlanGroup, plan_groups

Read = Callable[..., RunRecord]


def test_pairs_closer_than_five_per_cent_are_noise() -> None:
    # Measured 10, 10.4 and 12: the first two differ by 4 %. Predicted order 2, 1, 3.
    group = PlanGroup("g", ((1.1, 10.0), (1.0, 10.4), (1.2, 12.0)))
    assert group.pairs == [True, True]


def test_regret_is_what_the_predicted_best_costs() -> None:
    # The plan that is predicted best took 10.4, the best 10: 4 %.
    assert PlanGroup("g", ((1.1, 10.0), (1.0, 10.4), (1.2, 12.0))).regret_fraction == pytest.approx(0.04)
    assert PlanGroup("g", ((1.0, 10.0), (2.0, 20.0))).regret_fraction == 0.0


def test_plans_of_one_job_form_a_group(read: Read) -> None:
    first, second = read({"id": "a"}), read({"id": "b", "strategy.tp": 8, "strategy.pp": 1})
    other = read({"model.num_layers": 16})
    (group,) = plan_groups([first, other, second], [8.0, 4.0, 16.0])
    assert group.name == "a"
    assert group.times == ((8.0 / 64, 10.0 / 64), (16.0 / 64, 10.0 / 64))  # seconds a sample, batch 64


def test_a_published_sweep_is_a_group_and_suspect_runs_are_in_none(read: Read) -> None:
    runs = [read({"ranking_group": "sweep", "model.num_layers": layers}) for layers in (16, 32, 48)]
    runs[2] = replace(runs[2], suspect="disturbed")
    (group,) = plan_groups(runs, [1.0, 2.0, 3.0])
    assert (group.name, len(group.times)) == ("sweep", 2)
    assert plan_groups(runs[1:], [2.0, 3.0]) == []
