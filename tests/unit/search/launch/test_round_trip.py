"""Export a plan, read it back with a parser built from the release's table: the same strategy, and nothing that is refused."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.strategy import CpAlgo, Dispatcher, Feature, ParallelStrategy, Recompute, RecomputeMethod, RecomputeModule
from cost_models.workload import Workload
from search.canonical import canonical, canonical_schedule
from search.launch import EXPORTERS, launch_block, nearest
from search.launch.files import Start, launch_file
from search.launch.parsing import parse_arguments, parse_launch
from search.legality import violations
from tests.unit.search.launch.plans import MODELS, legal_plans, workload

NEAREST = {"megatron-lm": nearest.megatron, "mindspeed-llm": nearest.mindspeed, "mindformers": nearest.mindformers}
EXPORT = {target.name: export for target, export in EXPORTERS}
FRAMEWORKS = tuple(EXPORT)
ANY_PLAN = st.builds(
    ParallelStrategy,
    tp=st.sampled_from([1, 2, 4]), pp=st.sampled_from([1, 2, 4]), dp=st.just(1), ep=st.sampled_from([1, 2, 8]),
    etp=st.sampled_from([1, 2]), vpp=st.sampled_from([1, 2]), sequence_parallel=st.booleans(),
    micro_batch_size=st.sampled_from([1, 2]), dispatcher=st.sampled_from(Dispatcher), cp=st.sampled_from([1, 2]),
    cp_algo=st.sampled_from([CpAlgo.RING, CpAlgo.ULYSSES]), zero_stage=st.integers(0, 3),
    recompute=st.sampled_from(Recompute), recompute_method=st.sampled_from(RecomputeMethod),
    recompute_num_layers=st.integers(0, 3), recompute_modules=st.integers(0, 63).map(RecomputeModule),
    features=st.integers(0, 2**29 - 1).map(Feature),
)  # fmt: skip


def says_the_same(made: Workload, read: ParallelStrategy, meant: ParallelStrategy) -> None:
    ours, theirs = canonical(made, meant), canonical(made, read)
    assert {f.name: getattr(theirs, f.name) for f in fields(ours)} == {f.name: getattr(ours, f.name) for f in fields(ours)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("model", MODELS)
def test_every_framework_has_plans_to_try(framework: str, model: str) -> None:
    plans = legal_plans(framework, model)
    assert len(plans) > 500
    assert len({plan.recompute for plan in plans}) == 3
    assert len({plan.features for plan in plans}) > 5


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(tuple(MODELS)), index=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_legal_plan_comes_back_from_its_arguments(framework: str, model: str, index: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    plan = plans[index % len(plans)]
    launch = EXPORT[framework](made, plan)
    read = parse_arguments(list(launch.arguments), framework=framework, num_devices=made.cluster.num_devices)
    assert read.problems == ()
    meant, _ = NEAREST[framework](made, plan)
    says_the_same(made, read.strategy, meant)
    assert read.training["global_batch_size"] == made.training.global_batch_size
    assert read.training["seq_length"] == made.training.seq_length
    assert read.model["num_layers"] == made.model.num_layers


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(tuple(MODELS)), index=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_legal_plan_is_written_as_planned_but_for_switches_that_the_framework_sets(
    framework: str, model: str, index: int
) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    plan = plans[index % len(plans)]
    assert violations(made, plan) == ()
    planned, written = canonical(made, plan), canonical(made, NEAREST[framework](made, plan)[0])
    assert planned.features ^ written.features in nearest.IMPLIED[framework] | Feature(0)
    assert replace(written, features=planned.features) == planned


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(tuple(MODELS)), index=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_a_legal_plan_comes_back_from_its_file(framework: str, model: str, index: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    plan = plans[index % len(plans)]
    start = Start("Plan 1", made.cluster.num_devices, made.cluster.profile.devices_per_node)
    _, text = launch_file(framework, launch_block(made, plan)[framework], start)
    read = parse_launch(text)
    assert (read.framework, read.num_devices, read.problems) == (framework, 32, ())
    says_the_same(made, read.strategy, NEAREST[framework](made, plan)[0])


@pytest.mark.parametrize(
    ("framework", "plan_by_stage"), [("mindspeed-llm", (4, 4)), ("mindformers", (5, 0)), ("mindformers", (3, 3))]
)
@pytest.mark.parametrize("vpp", [1, 2])
def test_layers_of_recompute_by_stage_come_back(framework: str, plan_by_stage: tuple[int, ...], vpp: int) -> None:
    made = workload(framework, "dense")
    plan = ParallelStrategy(tp=2, pp=2, dp=8, vpp=vpp, sequence_parallel=True, recompute=Recompute.FULL)
    plan = replace(plan, recompute_layers_per_stage=plan_by_stage, schedule=canonical_schedule(2, vpp))
    assert violations(made, plan) == ()
    read = parse_arguments(list(EXPORT[framework](made, plan).arguments), framework=framework, num_devices=32).strategy
    if vpp == 1 and len(set(plan_by_stage)) == 1:  # without virtual stages a number for each stage says the same
        assert (read.recompute_method, read.recompute_num_layers) == (RecomputeMethod.BLOCK, plan_by_stage[0])
    else:
        assert read.recompute_layers_per_stage == plan_by_stage
    assert read == NEAREST[framework](made, plan)[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(tuple(MODELS)), plan=ANY_PLAN)
@settings(max_examples=40, deadline=None)
def test_of_any_plan_nothing_is_written_that_the_release_refuses(framework: str, model: str, plan: ParallelStrategy) -> None:
    made = workload(framework, model)
    plan = replace(plan, dp=32 // (plan.tp * plan.pp * plan.cp) or 1, vpp=plan.vpp if plan.pp > 1 else 1)
    launch = EXPORT[framework](made, plan)
    devices = plan.tp * plan.pp * plan.cp * plan.dp
    read = parse_arguments(list(launch.arguments), framework=framework, num_devices=devices)
    refused = [p for p in read.problems if "mtp-num-layers" not in p]  # a matter of the model and cp, not of the switches
    assert refused == []
