"""Objectives are whole entries, and the lower bound of each holds for plans of every kind."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import MISSING, fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import search.objectives
from app.answers.ranking_criteria import objective_context
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from search.objectives.objective import Criterion, Direction, Need, Objective, PointValue, Value
from search.objectives.table import OBJECTIVES, table_of
from search.plans.plan import estimates_to_mappings

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e11},
    "delivery": {"power_w": 400.0, "price_per_device_hour_usd": 2.0},
}


def job_of(**delivery: Any) -> Job:
    return parse_job({**JOB, "delivery": {**JOB["delivery"], **delivery}})


def test_every_file_of_the_folder_has_one_entry_of_its_name_in_the_table() -> None:
    names = {module.name for module in pkgutil.iter_modules(search.objectives.__path__)} - {"objective", "table"}
    assert set(OBJECTIVES) == names
    for name in names:
        assert getattr(importlib.import_module(f"search.objectives.{name}"), name.upper()) is OBJECTIVES[name]


def test_no_part_of_an_objective_has_a_default() -> None:
    for record in (Objective, PointValue):
        assert [part.name for part in fields(record) if (part.default, part.default_factory) != (MISSING, MISSING)] == []


def test_an_objective_of_a_name_and_values_alone_is_no_objective() -> None:
    def carbon(*of: Any) -> list[Value]:
        return []

    with pytest.raises(TypeError, match="missing 6 required"):
        Objective(name="carbon", values=carbon)  # type: ignore[call-arg]
    whole = OBJECTIVES["energy"]
    for part in ("values", "lower_bound"):
        with pytest.raises(TypeError, match="'carbon': name, unit, values, lower_bound"):
            table_of([replace(whole, name="carbon", **{part: None})])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="twice"):
        table_of([*OBJECTIVES.values(), replace(whole, name="cost")])
    assert "carbon" in table_of([replace(whole, name="carbon")])


degrees = st.sampled_from([1, 2, 4])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tp=degrees,
    pp=degrees,
    cp=st.sampled_from([1, 2]),
    micro_batch_size=st.sampled_from([1, 2]),
    zero_stage=st.sampled_from([0, 1]),
    site=st.fixed_dictionaries(
        {},
        optional={
            "failures_per_node_day": st.floats(0.0, 5.0),
            "idle_power_fraction": st.floats(0.0, 1.0),
            "waiting_power_fraction": st.floats(0.0, 1.0),
            "host_power_fraction": st.floats(0.0, 1.0),
            "pue": st.floats(1.0, 2.0),
            "price_per_kwh_usd": st.floats(0.0, 10.0),
            "spares": st.integers(0, 4),
        },
    ),
    faster=st.floats(0.3, 1.0),
)
def test_no_plan_is_better_than_the_bound_at_its_step(
    tp: int, pp: int, cp: int, micro_batch_size: int, zero_stage: int, site: dict[str, Any], faster: float
) -> None:
    """Nor than the bound at a shorter step, which is all that a proof knows."""
    job = job_of(**site)
    plan = ParallelStrategy(
        tp=tp, pp=pp, cp=cp, micro_batch_size=micro_batch_size, zero_stage=zero_stage, sequence_parallel=tp > 1
    )
    context = objective_context(job)
    found = estimate(job.workload, StrategyBatch.of([plan]), context.constants, breakdown=True)
    (numbers,) = estimates_to_mappings(job.workload, found)
    for entry in OBJECTIVES.values():
        (value,) = entry.values(context, [plan], [numbers])
        for step_s in (numbers["step_time_s"], faster * numbers["step_time_s"]):
            bound = entry.lower_bound(context, step_s)
            assert 0.0 <= bound <= value.value * (1 + 1e-12), entry.name


def test_a_plan_that_never_fails_and_only_waits_reaches_the_bounds() -> None:
    context = objective_context(job_of(failures_per_node_day=0.0, price_per_kwh_usd=1.0))
    plan = ParallelStrategy(tp=2)
    found = estimate(context.workload, StrategyBatch.of([plan]), context.constants, breakdown=True)
    (numbers,) = estimates_to_mappings(context.workload, found)
    context = replace(context, operation=lambda *_: replace(context.all_waiting[1]))
    numbers["time_breakdown_s"] = {"host": numbers["step_time_s"]}
    for name in ("energy", "cost", "device_hours"):
        (value,) = OBJECTIVES[name].values(context, [plan], [numbers])
        assert OBJECTIVES[name].lower_bound(context, numbers["step_time_s"]) == pytest.approx(value.value, rel=1e-9), name


def test_a_larger_number_is_better_or_worse_as_the_direction_says() -> None:
    job = job_of(failures_per_node_day=0.1)
    plans = [ParallelStrategy(tp=tp, pp=pp, sequence_parallel=tp > 1) for tp in (1, 4) for pp in (1, 4)]
    context = objective_context(job)
    found = estimate(job.workload, StrategyBatch.of(plans), context.constants, breakdown=True)
    numbers = estimates_to_mappings(job.workload, found)
    for entry in OBJECTIVES.values():
        sign = 1.0 if entry.direction is Direction.SMALLER else -1.0
        values = entry.values(context, plans, numbers)
        ordered = sorted(values, key=lambda value: value.value)
        assert [value.shown for value in ordered] == sorted((value.shown for value in values), key=lambda shown: sign * shown)
        assert len({value.value for value in values}) > 1, entry.name
        assert entry.unit


def test_an_objective_orders_the_lattice_by_the_number_that_is_its_value() -> None:
    job = job_of()
    plans = [ParallelStrategy(tp=tp, pp=pp, sequence_parallel=tp > 1) for tp in (1, 2, 4) for pp in (1, 2)]
    context = objective_context(job)
    found = estimate(job.workload, StrategyBatch.of(plans), context.constants, breakdown=True)
    numbers = estimates_to_mappings(job.workload, found)
    ordering = {name: entry.orders_lattice_by for name, entry in OBJECTIVES.items() if entry.orders_lattice_by}
    assert ordering == {
        "step_time": Criterion.STEP_TIME,
        "memory_headroom": Criterion.PEAK_MEMORY,
        "device_hours": Criterion.STEP_TIME,
    }
    for name, criterion in ordering.items():
        values = [value.value for value in OBJECTIVES[name].values(context, plans, numbers)]
        of_lattice = [each[criterion.value] for each in numbers]
        rows = range(len(plans))
        assert sorted(rows, key=values.__getitem__) == sorted(rows, key=of_lattice.__getitem__)


def test_what_an_objective_needs_is_known_or_lacking() -> None:
    known, bare = objective_context(job_of()), objective_context(parse_job({**JOB, "delivery": None}))
    assert [need for need in Need if known.lacks(need)] == []
    assert bare.lacks(Need.PRICE) == (parse_job(JOB).workload.cluster.profile.price_usd is None)
    assert OBJECTIVES["cost"].needs == {Need.PRICE}
    assert OBJECTIVES["energy"].needs == {Need.POWER}
    assert OBJECTIVES["delivered"].needs == {Need.FAILURES}


@pytest.mark.parametrize(
    ("name", "numbers", "value"),
    [
        ("step_time", {"days": 3.0}, 3.0),
        ("delivered", {"days": 3.0}, 3.0),
        ("robust", {"days": 3.0, "step_time_s": 2.0, "step_time_high_s": 4.0}, 6.0),
        ("robust", {"days": 3.0, "step_time_s": 2.0}, None),
        ("device_hours", {"device_days": 5.0}, 5.0),
        ("cost", {"cost_usd": 7.0}, 7.0),
        ("energy", {"energy_kwh": 9.0}, 9.0),
        ("memory_headroom", {"headroom_bytes": 11.0}, -11.0),
    ],
)
def test_a_point_of_a_sweep_has_the_value_of_its_own_number(name: str, numbers: dict[str, float], value: float | None) -> None:
    unknown = dict.fromkeys(
        ("days", "device_days", "cost_usd", "energy_kwh", "headroom_bytes", "step_time_s", "step_time_high_s")
    )
    point: Any = SimpleNamespace(**{**unknown, **numbers})
    assert OBJECTIVES[name].of_point.value(point) == value
    assert OBJECTIVES[name].of_point.value(SimpleNamespace(**unknown)) is None  # type: ignore[arg-type]


def test_defaults_of_a_site_are_no_site_where_an_objective_counts_no_failures() -> None:
    assert DeliverySection().failures_per_node_day > 0.0
    context = objective_context(job_of())
    numbers = {"step_time_s": 1.0, "time_breakdown_s": {}}
    assert context.operation(ParallelStrategy(), numbers).useful_fraction == 1.0
