"""The ladder of the Pangu Ultra MoE case study: what it claims of itself."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload
from scripts.case_studies.pangu import LOOPED, searched
from scripts.case_studies.pangu_ladder import (
    EXPECTED_MFU_FRACTION,
    FIRST,
    FUSED_MATMULS,
    LADDER_YEAR,
    MEMORY,
    SYSTEMS,
    foot,
    mfu,
    price,
    published_mfu,
    saved_fraction,
    superpod_workload,
    up_to,
    with_systems,
)


def test_the_first_two_rungs_are_within_a_fifth_of_the_published() -> None:
    assert mfu(foot(FIRST)) == pytest.approx(published_mfu(1), rel=0.2)
    assert mfu(with_systems(foot(), up_to(2))) == pytest.approx(published_mfu(2), rel=0.2)


def test_each_system_changes_the_job_or_the_plan_and_nothing_twice() -> None:
    now = foot()
    for system in SYSTEMS:
        then = system.on(*now)
        assert then != now
        assert (then[0] == now[0]) != (then[1] == now[1])  # one of the two
        assert system.on(*then) == then
        now = then


def test_systems_leave_devices_batch_and_structure_alone() -> None:
    (workload, plain), (after, strategy) = foot(), with_systems(foot(), SYSTEMS)
    assert {f.name for f in fields(Workload) if getattr(workload, f.name) != getattr(after, f.name)} == {"training", "software"}
    assert workload.training.global_batch_size == after.training.global_batch_size
    changed = {f.name for f in fields(ParallelStrategy) if getattr(plain, f.name) != getattr(strategy, f.name)}
    by_module = {"recompute", "recompute_method", "recompute_modules", "tensor_plan"}
    assert changed - by_module == {"dispatcher", "micro_batch_size", "features"}
    assert strategy.tensor_plan is not None
    assert strategy.recompute is Recompute.NONE


def test_single_tensors_reach_the_second_rung_with_twice_the_micro_batch() -> None:
    without = [system for system in up_to(2) if system is not MEMORY]
    point = with_systems(foot(), up_to(2))
    assert point[1].micro_batch_size == 2 * with_systems(foot(), without)[1].micro_batch_size
    assert price(point)["fits"]
    assert mfu(point) > mfu(with_systems(foot(), without))
    assert saved_fraction(point) > 0.5


def test_the_superpod_reaches_what_is_expected_of_it_with_a_layout_of_its_own() -> None:
    # [pangu-ultra-moe-2] more than 50 % on Atlas 900 A3, CloudMatrix384.
    workload = superpod_workload(LADDER_YEAR)
    own = searched(workload, {**LOOPED, "forbid": FUSED_MATMULS}, top=1).plans[0].parallel
    assert mfu((workload, own)) > EXPECTED_MFU_FRACTION
