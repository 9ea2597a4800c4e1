"""Which release of a stack a year and a name stand for, and what it does to device time."""

import math
from dataclasses import replace

import pytest

from cost_models.constants import CONSTANTS
from cost_models.layer.compute import release_doubt
from cost_models.shapes.releases import Ladder, Rung
from cost_models.shapes.traits import STACKS
from tests.workloads import constants, device, workload

LADDER = Ladder(
    "matmul_fraction",
    (Rung(0.0, "old", 2.0, 5), Rung(2024.5, "of the day", 0.0, 5), Rung(2026.0, "new", -1.0, 5)),
    {"r1.3": 2024.9},
)
LADDERS = {name: stack.traits.releases for name, stack in STACKS.items() if stack.traits.releases is not None}


@pytest.mark.parametrize(
    ("year", "releases"),
    [(1999.0, "old"), (2024.4, "old"), (2024.5, "of the day"), (2025.9, "of the day"), (2026.0, "new"), (None, "new")],
)
def test_a_year_belongs_to_the_last_rung_that_has_begun_and_no_year_to_the_newest(year: float | None, releases: str) -> None:
    assert LADDER.rung(year).releases == releases


def test_every_rung_has_a_year_of_its_own() -> None:
    assert [LADDER.rung(year) for year in LADDER.years] == list(LADDER.rungs)
    assert LADDER.years == (2024, 2024.5, 2026.0)


@pytest.mark.parametrize("stack", LADDERS)
def test_the_ladders_that_ship_rise_and_rest_on_runs(stack: str) -> None:
    ladder = LADDERS[stack]
    assert ladder.constant in {constant.name for constant in CONSTANTS}
    assert sorted(rung.since for rung in ladder.rungs) == [rung.since for rung in ladder.rungs]
    assert all(rung.num_runs >= 5 for rung in ladder.rungs)
    assert all(ladder.rung(year) in ladder.rungs for year in ladder.names.values())


@pytest.mark.parametrize(
    ("release", "year"), [("r1.3.0", 2024.9), ("1.3", 2024.9), (" R1.3 ", 2024.9), ("1.30", None), ("r9.9", None), ("", None)]
)
def test_names_of_a_release_are_read_with_and_without_r_and_patch(release: str, year: float | None) -> None:
    assert LADDER.year_of(release) == year


@pytest.mark.parametrize(
    ("stack", "year", "factor"),
    [
        ("mindformers", 2024.1, 1.25),
        ("mindformers", 2024.6, 1.0),
        ("mindformers", 2025.3, 0.8),
        ("mindformers", None, 0.8),
        ("mindspeed-llm", 2024.9, 1.0),
        ("mindspeed-llm", 2026.5, 0.9),
        ("mindspeed-llm", None, 0.9),
        ("megatron-lm", 2026.5, 1.0),
    ],
)
def test_device_time_is_the_constant_to_the_power_of_the_steps(stack: str, year: float | None, factor: float) -> None:
    job = workload(stack=stack, year=year)
    assert device(job, early_graph_factor=1.25, recent_eager_factor=0.9).time_factor == pytest.approx(factor)


def test_a_run_of_unknown_release_has_the_mean_of_all_and_doubt_either_way() -> None:
    # MindSpeed-LLM has two rungs, 0 and 1 steps of 0.81: half a step, 0.9, which is ln(0.9) from either.
    job = workload(stack="mindspeed-llm")
    unknown = replace(job, software=replace(job.software, unknown_release=True))
    assert device(unknown, recent_eager_factor=0.81).time_factor == pytest.approx(0.9)
    assert release_doubt(unknown, constants(recent_eager_factor=0.81)) == pytest.approx((-math.log(0.9), -math.log(0.9)))


def test_a_job_without_a_release_has_the_newest_and_doubt_upwards() -> None:
    job = workload(stack="mindspeed-llm")
    values = constants(recent_eager_factor=0.81)
    assert release_doubt(job, values) == pytest.approx((0.0, -math.log(0.81)))
    assert release_doubt(replace(job, software=replace(job.software, year=2024.0)), values) == (0.0, 0.0)


def test_another_framework_has_no_steps_and_doubt_down_to_the_newest() -> None:
    job = workload(stack="mindspeed-llm", year=2026.0)
    other = replace(job, software=replace(job.software, other_framework=True))
    assert device(other, recent_eager_factor=0.81).time_factor == 1.0
    assert release_doubt(other, constants(recent_eager_factor=0.81)) == pytest.approx((-math.log(0.81), 0.0))
