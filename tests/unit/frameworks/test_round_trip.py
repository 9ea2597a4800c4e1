"""Export a plan, read it back with a parser built from the release's table: the same strategy, and nothing that is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cost_models.shapes.canonical import DATA_PARALLEL_FEATURES, canonical, canonical_schedule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import legal_mask, violations
from frameworks.registry import BY_LABEL, BY_NAME
from frameworks.release import problems, read_tokens
from tests.choices import any_features, any_modules
from tests.oracle.launch_files.parsing import parse_arguments, parse_launch
from tests.unit.frameworks.plans import MODELS, OF_A_FLAVOR, legal_plans, workload

# Switches that a framework sets or clears without being asked: they may differ in a plan that it runs.
IMPLIED = {
    "megatron-lm": Feature.FUSED_NORM | Feature.FUSED_ROPE | DATA_PARALLEL_FEATURES,
    "mindspeed-llm": (
        Feature.FUSED_NORM
        | Feature.FLASH_ATTENTION
        | Feature.MOE_PERMUTE_FUSION
        | Feature.MOE_PERMUTATION_ASYNC_COMM
        | Feature.MOE_SHARED_EXPERT_OVERLAP
        | Feature.MOE_TP_EXTEND_EP
        | Feature.CP_SEND_RECV_OVERLAP
    ),
    # By the model, and by what the experts' own option has.
    "mindspeed-llm-fsdp2": Feature.FUSED_NORM | Feature.FUSED_ROPE | Feature.MOE_PERMUTE_FUSION,
    "mindformers": (
        DATA_PARALLEL_FEATURES | Feature.OVERLAP_P2P | Feature.FLASH_ATTENTION | Feature.FUSED_NORM | Feature.FUSED_ROPE
    ),
}
FSDP2 = "mindspeed-llm-fsdp2"
INDEPENDENT = ("megatron-lm", "mindspeed-llm", "mindformers")  # frameworks that the tests have a reader of their own for
NEAREST = {name: framework.nearest for name, framework in BY_NAME.items()}
EXPORT = {name: framework.write for name, framework in BY_NAME.items()}
FRAMEWORKS = tuple(BY_NAME)
ANY_PLAN = st.builds(
    ParallelStrategy,
    tp=st.sampled_from([1, 2, 4]), pp=st.sampled_from([1, 2, 4]), dp=st.just(1), ep=st.sampled_from([1, 2, 8]),
    etp=st.sampled_from([1, 2]), vpp=st.sampled_from([1, 2]), sequence_parallel=st.booleans(),
    micro_batch_size=st.sampled_from([1, 2]), dispatcher=st.sampled_from(Dispatcher), cp=st.sampled_from([1, 2]),
    cp_algo=st.sampled_from([CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.KV_ALLGATHER]), zero_stage=st.integers(0, 3),
    recompute=st.sampled_from(Recompute), recompute_method=st.sampled_from(RecomputeMethod),
    recompute_num_layers=st.integers(0, 3), recompute_modules=any_modules,
    features=any_features, schedule=st.sampled_from(Schedule),
    microbatch_group_size_per_vp_stage=st.sampled_from([0, 2, 8]),
)  # fmt: skip


def says_the_same(made: Workload, read: ParallelStrategy, meant: ParallelStrategy) -> None:
    ours, theirs = canonical(made, meant), canonical(made, read)
    assert {f.name: getattr(theirs, f.name) for f in fields(ours)} == {f.name: getattr(ours, f.name) for f in fields(ours)}


def made_for_it(model: str) -> bool:
    """Whether DualPipeV of MindSpeed takes the model: it merges passes of routed experts, under embeddings that are not tied."""
    return MODELS[model].moe is not None and not MODELS[model].tied_embeddings


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("model", MODELS)
def test_every_framework_has_plans_to_try(framework: str, model: str) -> None:
    plans = legal_plans(framework, model)
    # FSDP2 recomputes whole layers; torchtitan none, all or each n-th layer, and MindSpeed-LLM's backend has one row of ranks.
    assert len(plans) > {"torchtitan": 20, FSDP2: 6}.get(framework, 500)
    assert len({plan.recompute for plan in plans}) == (2 if framework in ("torchtitan", FSDP2) else 3)
    assert len({plan.features for plan in plans}) > (4 if framework in ("torchtitan", FSDP2) else 5)
    if framework == "megatron-lm" and MODELS[model].num_layers % 2:  # its chunks are equal
        return
    schedules = {plan.schedule for plan in plans}
    lacking = set() if made_for_it(model) else {Schedule.DUALPIPE_V}
    if framework == FSDP2 or (framework == "torchtitan" and "qwen3" in OF_A_FLAVOR[model]):
        lacking = {*Schedule} - {Schedule.NONE}
    assert schedules == {Schedule.NONE, *BY_NAME[framework].table.schedules} - lacking
    if framework in INDEPENDENT:
        assert {plan.microbatch_group_size_per_vp_stage for plan in plans} == ({0} if framework == "mindformers" else {0, 8})


@pytest.mark.parametrize("framework", INDEPENDENT)
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


@pytest.mark.parametrize("label", BY_LABEL)
@given(model=st.sampled_from(tuple(MODELS)), index=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_each_release_reads_what_it_writes_and_its_own_table_takes_it(label: str, model: str, index: int) -> None:
    made, plans, record = workload(label, model), legal_plans(label, model), BY_LABEL[label]
    plan = plans[index % len(plans)]
    written = record.write(made, plan).arguments
    says_the_same(made, record.read(written, made.cluster.num_devices), record.nearest(made, plan)[0])
    if record.suffix == "sh":  # a YAML document has no tokens
        given_, stray = read_tokens(record.release, list(written))
        assert (problems(record.release, given_), stray) == ([], [])


# Transformer Engine fuses the norms of every plan, MindFormers has no other attention, and no model here has an indexer.
UNTOLD = {
    "megatron-lm": Feature.FUSED_NORM,
    "mindformers": Feature.FLASH_ATTENTION,
    "mindspeed-llm": Feature.SPARSE_ATTENTION_KERNEL | Feature.FUSED_INDEXER,  # test_sparse_attention.py tells them
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_switch_of_a_table_changes_what_is_written(framework: str) -> None:
    told = Feature(0)
    wanted = BY_NAME[framework].table.offered & ~BY_NAME[framework].table.implied & ~UNTOLD.get(framework, Feature(0))
    # A dozen plans of each model tell most switches; all are asked about the rest.
    for most, model, fp32_parameters in product((12, 100), MODELS, (False, True)):
        if told == wanted:
            break
        made, plans = workload(framework, model), legal_plans(framework, model)
        made = replace(made, software=replace(made.software, fp32_parameters=fp32_parameters))
        chosen = plans[:: max(len(plans) // 100, 1)]
        written = cache(lambda row: EXPORT[framework](made, chosen[row]).arguments)  # noqa: B023 -- called in this turn only
        for feature in wanted & ~told:
            flipped = [replace(plan, features=plan.features ^ feature) for plan in chosen]
            legal = np.flatnonzero(legal_mask(made, StrategyBatch.of(flipped), framework))
            if any(EXPORT[framework](made, flipped[row]).arguments != written(row) for row in legal[:: len(legal) // most or 1]):
                told |= feature
    assert told == wanted, wanted & ~told


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
    assert planned.features ^ written.features in IMPLIED.get(framework, Feature(0)) | BY_NAME[framework].table.implied
    assert replace(written, features=planned.features) == planned


@pytest.mark.parametrize("framework", INDEPENDENT)
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


@pytest.mark.parametrize(
    ("framework", "planned", "written", "sentence"),
    [
        (
            "megatron-lm",
            (2, Schedule.DUALPIPE_V, 0),
            (2, Schedule.INTERLEAVED, 0),
            "schedule dualpipev is written as interleaved-1f1b",
        ),
        ("megatron-lm", (1, Schedule.ZB2P, 0), (1, Schedule.ONE_F_ONE_B, 0), "schedule zb2p is written as 1f1b"),
        ("mindspeed-llm", (2, Schedule.ZBV, 0), (2, Schedule.INTERLEAVED, 0), "MindSpeed-LLM has no such schedule"),
        ("mindspeed-llm", (1, Schedule.DUALPIPE, 0), (1, Schedule.ONE_F_ONE_B, 0), "schedule dualpipe is written as 1f1b"),
        ("mindspeed-llm", (2, Schedule.DUALPIPE_V, 0), (2, Schedule.DUALPIPE_V, 0), "moe_comm_overlap comes with it"),
        ("mindformers", (2, Schedule.ZBV, 0), (2, Schedule.ZBV, 0), None),
        ("mindformers", (1, Schedule.GPIPE, 0), (1, Schedule.GPIPE, 0), None),
        ("mindformers", (2, Schedule.INTERLEAVED, 8), (2, Schedule.INTERLEAVED, 0), "group_size_per_vp_stage 8 is written as 4"),
    ],
)
def test_a_schedule_that_a_framework_lacks_is_written_as_the_nearest(
    framework: str,
    planned: tuple[int, Schedule, int],
    written: tuple[int, Schedule, int],
    sentence: str | None,
) -> None:
    made = workload(framework, "mixture")
    vpp, schedule, size = planned
    plan = ParallelStrategy(
        tp=2, pp=4, dp=4, ep=8, vpp=vpp, schedule=schedule, microbatch_group_size_per_vp_stage=size, sequence_parallel=True,
        dispatcher=Dispatcher.ALLTOALL,
    )  # fmt: skip
    nearest_plan, sentences = NEAREST[framework](made, plan)
    assert (nearest_plan.vpp, nearest_plan.schedule, nearest_plan.microbatch_group_size_per_vp_stage) == written
    assert any(sentence in line for line in sentences) if sentence else not any("schedule" in line for line in sentences)


def test_a_fold_over_too_few_micro_batches_for_virtual_stages_is_written_as_one_chunk() -> None:
    # 256 samples over dp 4 in micro batches of 6 are 10, no multiple of pp 4: 1F1B, and a block of 2 x 3 layers of the rank.
    made = workload("megatron-lm", "dense")
    plan = ParallelStrategy(
        tp=2, pp=4, dp=4, vpp=2, micro_batch_size=6, schedule=Schedule.ZBV, recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=3,
    )  # fmt: skip
    written, sentences = NEAREST["megatron-lm"](made, plan)
    assert (written.vpp, written.schedule, written.recompute_num_layers) == (1, Schedule.ONE_F_ONE_B, 6)
    assert "schedule zbv is written as 1f1b with vpp 1" in sentences[0]


def test_dualpipev_of_mindspeed_is_written_without_virtual_stages() -> None:
    made = workload("mindspeed-llm", "mixture")
    plan = next(
        plan
        for plan in legal_plans("mindspeed-llm", "mixture")
        if plan.schedule is Schedule.DUALPIPE_V and Feature.DUALPIPEV_DW_DETACH in plan.features
    )
    arguments = EXPORT["mindspeed-llm"](made, plan).arguments
    written = " ".join(arguments)
    assert "--schedules-method dualpipev --dualpipev-dw-detach" in written
    assert "--moe-fb-overlap" in arguments
    assert not any("virtual" in argument or "overlap-p2p" in argument for argument in arguments)


@pytest.mark.parametrize("framework", INDEPENDENT)
@given(model=st.sampled_from(tuple(MODELS)), plan=ANY_PLAN)
@settings(max_examples=40, deadline=None)
def test_of_any_plan_nothing_is_written_that_the_release_refuses(framework: str, model: str, plan: ParallelStrategy) -> None:
    made = workload(framework, model)
    plan = replace(plan, dp=32 // (plan.tp * plan.pp * plan.cp) or 1, vpp=plan.vpp if plan.pp > 1 else 1)
    assume(all(broken.rule != "schedule" for broken in violations(made, plan)))  # no job states such a plan
    launch = EXPORT[framework](made, plan)
    devices = plan.tp * plan.pp * plan.cp * plan.dp
    read = parse_arguments(list(launch.arguments), framework=framework, num_devices=devices)
    says_the_same(made, BY_NAME[framework].read(launch.arguments, devices), read.strategy)
    refused = [p for p in read.problems if "mtp-num-layers" not in p]  # a matter of the model and cp, not of the switches
    assert refused == []
