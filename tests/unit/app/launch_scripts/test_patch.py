"""Launch files read back as text say what was planned, and a changed one says the plan that it was changed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalogue.models.presets import model_preset, names
from app.launch_scripts.launch import Given
from app.launch_scripts.patch import Patched, patched
from app.launch_scripts.reading import read_launch
from app.launch_scripts.yaml_launch import YamlLaunch
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import TrainingJob, Workload
from frameworks.framework import Framework, ReadJob, Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import violations
from frameworks.registry import BY_LABEL, BY_NAME
from tests.unit.frameworks.plans import legal_plans, shape, workload

FRAMEWORKS = tuple(BY_NAME)
TRIED = ("uneven", "mixture")


def text_of(framework: str, made: Workload, plan: ParallelStrategy) -> str:
    start = Start("Plan 1", made.cluster.num_devices, made.cluster.profile.devices_per_node)
    return launch_file(framework, launch_block(made, plan)[framework], start)[1]


def same(made: Workload, read: ParallelStrategy, meant: ParallelStrategy) -> None:
    ours, theirs = canonical(made, meant), canonical(made, read)
    assert {f.name: getattr(theirs, f.name) for f in fields(ours)} == {f.name: getattr(ours, f.name) for f in fields(ours)}


def job_of(record: Framework, arguments: Sequence[str], made: Workload) -> ReadJob:
    """The job of arguments, with the model that they name."""
    if record.named is not None:
        assert record.named.model(arguments).path.rpartition("/")[2] == made.model.name
        return record.named.read_job(arguments, made.cluster.num_devices, made.model)
    return record.read_job(arguments, made.cluster.num_devices)


def changed(record: Framework, made: Workload, own: ParallelStrategy, best: ParallelStrategy) -> Patched:
    launch, _ = read_launch(text_of(record.name, made, own), Given("plan"), made.cluster.profile.family, made.software.target)
    return patched(launch, record, made, own, best, made.cluster.num_devices)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(TRIED), index=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_a_launch_file_is_read_back_as_it_was_planned(framework: str, model: str, index: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    plan, record = plans[index % len(plans)], BY_NAME[framework]
    launch, found = read_launch(text_of(framework, made, plan), Given("plan"), made.cluster.profile.family, None)
    assert found is record
    written = launch_block(made, plan)[framework]["arguments"]
    assert set(written) <= set(launch.arguments)
    assert launch.num_devices in ((made.cluster.num_devices,) if record.suffix == "sh" else (None,))
    same(made, record.read(launch.arguments, made.cluster.num_devices), record.nearest(made, plan)[0])
    job = job_of(record, launch.arguments, made)
    assert (job.seq_length, job.global_batch_size) == (made.training.seq_length, made.training.global_batch_size)
    assert job.model == job_of(record, written, made).model
    assert (job.model.num_layers, job.model.hidden_size) == (
        shape(framework, model).num_layers,
        shape(framework, model).hidden_size,
    )
    assert job.precision == made.training.precision


@pytest.mark.parametrize("framework", FRAMEWORKS)
@given(model=st.sampled_from(TRIED), first=st.integers(0, 10**6), second=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_a_changed_launch_file_says_the_other_plan(framework: str, model: str, first: int, second: int) -> None:
    made, plans = workload(framework, model), legal_plans(framework, model)
    own, best = plans[first % len(plans)], plans[second % len(plans)]
    record = BY_NAME[framework]
    launch, _ = read_launch(text_of(framework, made, own), Given("plan"), made.cluster.profile.family, None)
    patch = patched(launch, record, made, own, best, made.cluster.num_devices)
    assert patch.is_exact
    again, _ = read_launch(patch.launch.text, Given("plan"), made.cluster.profile.family, None)
    same(made, record.read(again.arguments, made.cluster.num_devices), record.nearest(made, best)[0])
    before, after = (job_of(record, one.arguments, made) for one in (launch, again))
    assert (after.model, after.global_batch_size, after.seq_length) == (before.model, before.global_batch_size, before.seq_length)


@pytest.mark.parametrize(
    ("framework", "argument"),
    [
        ("torchtitan", "training.global_batch_size"),
        ("megatron-lm", "global-batch-size"),
        ("mindspeed-llm", "global-batch-size"),
    ],
)
def test_a_batch_that_followed_from_the_plan_stays(framework: str, argument: str) -> None:
    made, record = workload(framework, "uneven"), BY_NAME[framework]
    plans = [plan for plan in legal_plans(framework, "uneven") if plan.pp == 1]
    own = max(plans, key=lambda plan: plan.micro_batch_size * plan.dp)
    made = replace(made, training=replace(made.training, global_batch_size=own.micro_batch_size * own.dp))
    best = next(
        plan
        for plan in plans
        if (at_once := plan.micro_batch_size * plan.dp) < own.micro_batch_size * own.dp
        and made.training.global_batch_size % at_once == 0
    )
    stated, _ = read_launch(text_of(framework, made, own), Given("plan"), made.cluster.profile.family, None)
    launch = stated.again(next(stated.without(argument)))
    assert argument not in launch.said()
    assert job_of(record, launch.arguments, made).global_batch_size == made.training.global_batch_size
    patch = patched(launch, record, made, own, best, made.cluster.num_devices)
    assert patch.is_exact
    assert job_of(record, patch.launch.arguments, made).global_batch_size == made.training.global_batch_size
    assert patch.launch.said()[argument] == (str(made.training.global_batch_size),)
    assert argument not in patched(launch, record, made, own, own, made.cluster.num_devices).launch.said()


def test_a_section_of_a_yaml_file_goes_with_its_last_option() -> None:
    made = workload("mindformers", "uneven")
    record = BY_NAME["mindformers"]
    plans = legal_plans("mindformers", "uneven")
    swapping = next(plan for plan in plans if Feature.SWAP_ATTENTION in plan.features)
    plain = next(plan for plan in plans if Feature.SWAP_ATTENTION not in plan.features)
    patch = changed(record, made, swapping, plain)
    assert patch.is_exact
    assert "swap_config" not in patch.launch.text


@pytest.mark.parametrize("lead", ["    - 1\n    - -1\n", "      - 1\n      - -1\n", "      [1,\n       -1]\n"])
def test_a_list_on_lines_of_its_own_is_replaced(lead: str) -> None:
    text = f"model:\n  model_config:\n    offset:\n{lead}    vocab_size: 100\n"
    launch = YamlLaunch(text, Given("plan"), BY_NAME["mindformers"].release)
    (changed_text,) = launch.with_values("model.model_config.offset", ("[[0, 1], [-1, 0]]",))
    assert yaml.safe_load(changed_text) == {"model": {"model_config": {"offset": [[0, 1], [-1, 0]], "vocab_size": 100}}}


def test_a_key_is_added_to_a_section_on_one_line() -> None:
    launch = YamlLaunch("parallel: {parallel_mode: 1}\n", Given("plan"), BY_NAME["mindformers"].release)
    (text,) = launch.with_values("parallel.pipeline_config.pipeline_interleave", ("true",))
    assert type(text) is str  # which the parser takes alone
    assert launch.again(text).said()["parallel.pipeline_config.pipeline_interleave"] == ("true",)


def test_the_environment_is_changed_as_the_two_plans_need_it() -> None:
    made, record = workload("megatron-lm", "uneven"), BY_NAME["megatron-lm"]
    alone, split = (ParallelStrategy(tp=tp, pp=1, dp=32 // tp, micro_batch_size=1, sequence_parallel=tp > 1) for tp in (1, 2))
    to_split, to_alone = changed(record, made, alone, split), changed(record, made, split, alone)
    assert to_split.is_exact
    assert to_alone.is_exact
    assert to_split.launch.environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert [change.argument for change in to_split.changes].count("export CUDA_DEVICE_MAX_CONNECTIONS") == 1
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in to_alone.launch.environment
    assert (to_split.left, to_alone.left) == ((), ())


@cache
def preset_plans(label: str, preset: str) -> tuple[Workload, tuple[ParallelStrategy, ...]]:
    """A few layouts of a preset that the release runs, of a small lattice."""
    record = BY_LABEL[label]
    dummy = workload(record.name, "uneven")
    model = model_preset(preset).model
    training = TrainingJob(2048, 512, "bf16")
    made = replace(dummy, model=model, training=training, software=replace(dummy.software, target=label))
    made = replace(made, cluster=replace(made.cluster, num_devices=64))
    stage = 3 if record.target.stack else 1  # the targets with a stack of their own are fully sharded
    plans = [
        ParallelStrategy(
            tp=tp,
            pp=pp,
            dp=64 // tp // pp,
            ep=ep,
            micro_batch_size=1,
            zero_stage=stage,
            sequence_parallel=tp > 1,
            features=features,
        )
        for tp in (1, 4)
        for pp in (1, 2)
        for ep in ((8,) if model.moe else (1,))
        for features in (DEFAULT_FEATURES, DEFAULT_FEATURES & record.table.offered & ~Feature.FUSED_ROPE)
    ]
    return made, tuple(plan for plan in plans if not violations(made, plan))


@pytest.mark.parametrize("label", BY_LABEL)
def test_every_preset_is_read_back_from_the_text_of_its_launch_file(label: str) -> None:
    record = BY_LABEL[label]
    tried = 0
    for preset in names():
        made, plans = preset_plans(label, preset)
        if record.untold(made):
            continue  # the release trains another model, and the file says so
        for plan in plans[:2]:
            launch, _ = read_launch(text_of(record.name, made, plan), Given("plan"), made.cluster.profile.family, label)
            job = job_of(record, launch.arguments, made)
            same(made, job.strategy, record.nearest(made, plan)[0])
            assert (job.seq_length, job.global_batch_size, job.precision) == (2048, 512, "bf16"), preset
            for field in fields(made.model):
                if field.name not in ("name", "vocab_size", "constants"):
                    assert getattr(job.model, field.name) == getattr(made.model, field.name), (preset, field.name)
            meant, read = made.model.constants, job.model.constants
            for field in fields(meant) if record.name != "torchtitan" else ():  # a flavor has constants of its own
                # What a preset does not state has the framework's default; a script has no place for the model's type.
                if field.name != "model_type" and getattr(meant, field.name) is not None:
                    assert getattr(read, field.name) == getattr(meant, field.name), (preset, field.name)
            tried += 1
    assert tried >= 2, "too few presets run there"
