"""Launch files read back as text say what was planned, and a changed one says the plan that it was changed to."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.scripts.launch import Given
from app.scripts.patch import patched
from app.scripts.reading import read_launch
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.registry import BY_NAME
from tests.unit.frameworks.plans import legal_plans, shape, workload

FRAMEWORKS = tuple(BY_NAME)
TRIED = ("uneven", "mixture")


def text_of(framework: str, made: Workload, plan: ParallelStrategy) -> str:
    start = Start("Plan 1", made.cluster.num_devices, made.cluster.profile.devices_per_node)
    return launch_file(framework, launch_block(made, plan)[framework], start)[1]


def same(made: Workload, read: ParallelStrategy, meant: ParallelStrategy) -> None:
    ours, theirs = canonical(made, meant), canonical(made, read)
    assert {f.name: getattr(theirs, f.name) for f in fields(ours)} == {f.name: getattr(ours, f.name) for f in fields(ours)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(TRIED), index=st.integers(0, 10**6))
@settings(max_examples=12, deadline=None)
def test_a_launch_file_is_read_back_as_it_was_planned(framework: str, model: str, index: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    plan, record = plans[index % len(plans)], BY_NAME[framework]
    launch, found = read_launch(text_of(framework, made, plan), Given("plan"), made.cluster.profile.family, None)
    assert found is record
    written = launch_block(made, plan)[framework]["arguments"]
    assert set(written) <= set(launch.arguments)
    assert launch.num_devices in ((None,) if framework == "mindformers" else (made.cluster.num_devices,))
    same(made, record.read(launch.arguments, made.cluster.num_devices), record.nearest(made, plan)[0])
    assert record.read_job is not None
    job = record.read_job(launch.arguments, made.cluster.num_devices)
    assert (job.seq_length, job.global_batch_size) == (made.training.seq_length, made.training.global_batch_size)
    assert job.model == record.read_job(written, made.cluster.num_devices).model
    assert (job.model.num_layers, job.model.hidden_size) == (
        shape(framework, model).num_layers,
        shape(framework, model).hidden_size,
    )
    assert job.precision == made.training.precision


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(TRIED), first=st.integers(0, 10**6), second=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_a_changed_launch_file_says_the_other_plan(framework: str, model: str, first: int, second: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    own, best = plans[first % len(plans)], plans[second % len(plans)]
    record = BY_NAME[framework]
    launch, _ = read_launch(text_of(framework, made, own), Given("plan"), made.cluster.profile.family, None)
    changed = patched(launch, record, made, own, best, made.cluster.num_devices)
    assert changed.is_exact
    again, _ = read_launch(changed.launch.text, Given("plan"), made.cluster.profile.family, None)
    same(made, record.read(again.arguments, made.cluster.num_devices), record.nearest(made, best)[0])
    assert record.read_job is not None
    before, after = (record.read_job(one.arguments, made.cluster.num_devices) for one in (launch, again))
    assert (after.model, after.global_batch_size, after.seq_length) == (before.model, before.global_batch_size, before.seq_length)
