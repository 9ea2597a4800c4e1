"""The ladder of the Pangu Ultra MoE case study: what it claims of itself."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from scripts.pangu_ladder import FIRST, SYSTEMS, foot, mfu, published_mfu, up_to, with_systems


def test_the_first_two_rungs_are_within_a_tenth_of_the_published() -> None:
    assert mfu(foot(FIRST)) == pytest.approx(published_mfu(1), rel=0.1)
    assert mfu(with_systems(foot(), up_to(2))) == pytest.approx(published_mfu(2), rel=0.1)


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
    assert changed == {"dispatcher", "micro_batch_size", "features"}
