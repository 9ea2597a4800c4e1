from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from calibration.intervals.plan_differences import (
    CLOSE_LOG,
    JobPairs,
    PairedError,
    PlanPair,
    job_pairs,
    left_out_limits,
    paired_errors,
)
from calibration.records.training import RunRecord

Read = Callable[..., RunRecord]


def jobs(*sizes: float, kind: str = "dense") -> list[JobPairs]:
    """One pair a job, each of another architecture."""
    return [JobPairs(kind, place, (PlanPair(0.05, size),)) for place, size in enumerate(sizes)]


def by_kind(errors: tuple[PairedError, ...]) -> dict[str, PairedError]:
    return {error.kind: error for error in errors}


def test_a_pair_is_turned_so_that_the_plan_that_is_predicted_slower_comes_first(read: Read) -> None:
    # Measured 10 s and 12 s (tp 8 the slower by ln 1.2 = 0.182); predicted 10 e^0.10 and 12 e^0.02: 0.102 apart, 0.08 too little.
    first, second = read({"id": "a"}), read({"id": "b", "strategy.tp": 8, "strategy.pp": 1})
    second = replace(second, measured=replace(second.measured, step_time_s=12.0))
    (job,) = job_pairs([first, second], [0.10, 0.02])
    (pair,) = job.pairs
    assert pair.predicted_log == pytest.approx(log(1.2) - 0.08)
    assert pair.log_error == pytest.approx(-0.08)
    assert pair.is_in_order
    # The other way round: predicted 0.02 slower, and faster by 0.182.
    ((pair,),) = (job.pairs for job in job_pairs([first, second], [0.1, -0.1]))
    assert (pair.predicted_log, pair.log_error) == (pytest.approx(0.2 - log(1.2)), pytest.approx(0.2))
    assert not pair.is_in_order


def test_repetitions_and_plans_far_apart_are_no_pairs(read: Read) -> None:
    first, second = read({"id": "a"}), read({"id": "b", "strategy.tp": 8, "strategy.pp": 1})
    assert job_pairs([first, replace(first, id="again")], [0.0, 0.1]) == ()
    assert job_pairs([first, second], [0.0, CLOSE_LOG + 0.01]) == ()
    assert len(job_pairs([first, second], [0.0, CLOSE_LOG - 0.01])) == 1


def test_jobs_of_one_sweep_stay_apart(read: Read) -> None:
    changes = (
        {},
        {"strategy.tp": 8, "strategy.pp": 1},
        {"model.num_layers": 16},
        {"model.num_layers": 16, "strategy.tp": 8, "strategy.pp": 1},
    )
    runs = [read({"ranking_group": "sweep", **change}) for change in changes]
    assert [len(job.pairs) for job in job_pairs(runs, [0.0] * 4)] == [1, 1]


def test_three_of_five_jobs_lie_within_so_that_four_of_five_orders_are_right() -> None:
    # 99 errors 0.01 ... 0.99 and one beyond: 60 % of the 100 reach 0.60. An error is as likely to flatter the one plan as the
    # other, so that 80 % of the signed errors lie below it. The scale of 99 jobs is known to one part in 99.
    dense = by_kind(paired_errors(jobs(*np.arange(1, 100) / 100)))["dense"]
    assert dense.log_error == pytest.approx(0.60 * (100 / 99) ** 0.5)
    assert (dense.num_groups, dense.num_pairs) == (99, 99)


def test_a_job_of_many_pairs_weighs_as_one_of_few() -> None:
    few = jobs(*[0.1] * 9, 0.5)
    many = [*few[:-1], replace(few[-1], pairs=few[-1].pairs * 500)]
    assert by_kind(paired_errors(many))["all"].log_error == pytest.approx(by_kind(paired_errors(few))["all"].log_error)


def test_few_jobs_are_drawn_towards_those_of_others_and_widened() -> None:
    # Two jobs 20 % off beside 98 of another family 5 % off: pooled mean 0.053, drawn (0.2^2 x 0.053^5)^(1/7) = 0.0774. Errors
    # over the scales of their kinds: 0.2 / 0.0774 = 2.58 twice, 0.05 / (0.05^98 x 0.053^5)^(1/103) = 0.997 98 times, which is
    # the quantile. Two jobs tell the scale to one part in two: x (3/2)^(1/2).
    own, others = jobs(0.2, 0.2), jobs(*[0.05] * 98)
    pooled = (2 * 0.2 + 98 * 0.05) / 100
    scale = exp((2 * log(0.2) + 5 * log(pooled)) / 7)
    quantile = 0.05 / exp((98 * log(0.05) + 5 * log(pooled)) / 103)
    assert by_kind(paired_errors(own, others))["dense"].log_error == pytest.approx(quantile * scale * 1.5**0.5)
    assert {error.kind for error in paired_errors(own, jobs(0.1, kind="moe"))} == {"all", "dense"}


def test_few_jobs_of_a_site_never_narrow_what_it_starts_from() -> None:
    wider = (PairedError("all", 0.3, 50, 90), PairedError("dense", 0.2, 40, 80), PairedError("moe", 0.4, 10, 10))
    eight = by_kind(paired_errors(jobs(*[0.01] * 8), wider=wider))
    nine = by_kind(paired_errors(jobs(*[0.01] * 9), wider=wider))
    assert eight["dense"].log_error == 0.2
    assert nine["dense"].log_error < 0.02
    assert nine["moe"] == wider[2]
    assert paired_errors([], wider=wider) == wider


def test_a_left_out_limit_knows_nothing_of_its_own_architecture() -> None:
    own = [*jobs(*[0.1] * 12), *[JobPairs("dense", 0, (PlanPair(0.05, 0.5),))] * 30]
    limits = left_out_limits(own)
    assert limits[0] == limits[-1] == pytest.approx(by_kind(paired_errors(jobs(*[0.1] * 11)))["dense"].log_error)
    assert limits[1] > 4 * limits[0]


@pytest.mark.parametrize("num_jobs", [10, 40])
def test_four_of_five_signed_errors_of_further_jobs_lie_below(num_jobs: int) -> None:
    random = np.random.default_rng(5)
    below = []
    for _ in range(200):
        limit = by_kind(paired_errors(jobs(*np.abs(random.normal(0, 0.05, num_jobs)))))["all"].log_error
        below.append(float(np.mean(random.normal(0, 0.05, 200) < limit)))
    assert 0.78 < np.mean(below) < 0.84
