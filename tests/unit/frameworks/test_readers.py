"""The product's readers: what they say of scripts that others wrote agrees with readers that share nothing with them."""

from __future__ import annotations

import pytest

from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from frameworks.framework import ReadingError
from frameworks.registry import BY_NAME, FRAMEWORKS
from tests.oracle.launch_files.parsing import parse_arguments
from tests.oracle.launch_files.shell import LaunchFileError
from tests.unit.frameworks.published import megatron_arguments, mindformers_options, rows
from tests.unit.frameworks.test_published_runs import recorded, records


@pytest.mark.parametrize("framework", ["mindspeed-llm", "mindformers"])
def test_published_runs_are_read_as_an_independent_reader_reads_them(framework: str) -> None:
    arguments_of = megatron_arguments if framework == "mindspeed-llm" else mindformers_options
    read = 0
    for row in rows(framework):
        arguments, devices = arguments_of(row), row["cluster"]["num_devices"]
        try:
            theirs = parse_arguments(arguments, framework=framework, num_devices=devices).strategy
        except LaunchFileError:
            with pytest.raises(ReadingError):
                BY_NAME[framework].read(arguments, devices)
            continue
        if row["id"] in records():
            made = recorded(row).workload
            ours = BY_NAME[framework].read(arguments, devices)
            assert canonical(made, ours) == canonical(made, theirs), row["id"]
            read += 1
    assert read >= 58


def read(framework: str, text: str, devices: int | None = None) -> ParallelStrategy:
    return BY_NAME[framework].read(text.split(), devices)


def test_the_frameworks_defaults_hold_for_what_is_not_given() -> None:
    experts = read("megatron-lm", "--num-experts 8 --tensor-model-parallel-size 2 --micro-batch-size 1", 8)
    assert (experts.dp, experts.etp, experts.dispatcher) == (4, 2, Dispatcher.ALLGATHER)
    assert read("mindspeed-llm", "--context-parallel-size 2").cp_algo is CpAlgo.RING
    assert read("megatron-lm", "--context-parallel-size 2").cp_algo is CpAlgo.RING
    assert read("megatron-lm", "").features == Feature.FUSED_NORM | Feature.FLASH_ATTENTION
    assert Feature.FUSED_ROPE in read("megatron-lm", "--position-embedding-type rope").features


def test_former_names_and_levels_are_understood() -> None:
    features = read("mindspeed-llm", "--use-mc2 --moe-zero-memory level1 --use-fused-moe-token-permute-and-unpermute").features
    assert Feature.MC2 | Feature.MOE_ZERO_MEMORY | Feature.MOE_PERMUTE_FUSION in features


def test_a_v_has_two_chunks_that_no_argument_counts() -> None:
    text = "--num-layers 64 --noop-layers 61,62,63 --pipeline-model-parallel-size 8 --schedules-method dualpipev"
    strategy = read("mindspeed-llm", text)
    assert (strategy.schedule, strategy.vpp, strategy.layer_layout) == (Schedule.DUALPIPE_V, 2, None)


def test_a_layout_that_is_not_every_models_default_is_said() -> None:
    # 30 layers over 4 ranks: a model whose dense layers lead has 8, 8, 7, 7 by default, another one 7, 8, 8, 7.
    ends = "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"
    assert read("megatron-lm", f"--num-layers 30 --pipeline-model-parallel-size 4 {ends}").layer_layout == ((7, 8, 8, 7),)
    assert read("megatron-lm", "--num-layers 32 --pipeline-model-parallel-size 4").layer_layout is None


@pytest.mark.parametrize(
    ("text", "chunk", "vpp"),
    [
        ("--num-layers 80", 8, 5),
        ("--num-layers 80", 40, 1),
        ("--num-layers 80", 7, None),
        ("--num-layers 80", 9, None),
        ("--num-layers 80", 30, None),
        ("--num-layers 80", 41, None),
        ("--num-layers 78 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", 8, 5),
        ("--num-layers 80 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", 8, None),
        ("--num-layers 79 --account-for-loss-in-pipeline-split", 10, 4),
    ],
)
def test_layers_of_a_rank_are_whole_virtual_stages(text: str, chunk: int, vpp: int | None) -> None:
    arguments = f"{text} --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage {chunk}"
    for release in (each for each in FRAMEWORKS if each.name == "megatron-lm"):
        if vpp is None:
            with pytest.raises(ReadingError, match=f"no multiple of pp 2 x num-layers-per-virtual-pipeline-stage {chunk}$"):
                release.read(arguments.split(), None)
        else:
            assert release.read(arguments.split(), None).vpp == vpp


@pytest.mark.parametrize(
    ("framework", "text", "sentence"),
    [
        ("megatron-lm", "--tensor-model-parallel-size 4", "= 4 devices of a replica do not divide the 6"),
        ("megatron-lm", "--tensor-model-parallel-size 0", "give 1 to"),
        (
            "megatron-lm",
            "--num-layers 30 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 9",
            "not a multiple",
        ),
        ("megatron-lm", "--num-layers 2 --pipeline-model-parallel-size 3", "do not fit num-layers 2"),
        ("mindspeed-llm", "--num-layers 6 --pipeline-model-parallel-size 2 --noop-layers 9", "noop-layers has 9"),
        ("mindspeed-llm", "--num-layers 6 --noop-layers x", "no list of whole numbers"),
        ("mindspeed-llm", "--num-layers 6 --pipeline-model-parallel-size 2 --num-layer-list 3,2", "does not place 6 layers"),
        ("mindformers", "parallel_config.data_parallel", "not path=value"),
        ("mindformers", 'parallel_config.data_parallel="two"', "give a whole number from 1"),
        ("mindformers", "model.model_config.num_hidden_layers=5 model.model_config.offset=[1,0]", "does not place 5 layers"),
        ("mindformers", 'recompute_config.recompute=["all"]', "no list of numbers of layers"),
        ("mindformers", "recompute_config.recompute=[1] swap_config.swap=true", "num_hidden_layers is missing"),
    ],
)
def test_arguments_that_no_strategy_means_get_one_sentence(framework: str, text: str, sentence: str) -> None:
    with pytest.raises(ReadingError, match=sentence.replace("*", ".")) as caught:
        read(framework, text, 6)
    assert "\n" not in str(caught.value)


def test_what_a_release_does_not_know_or_refuses_is_passed_over() -> None:
    assert (
        read("megatron-lm", "--use-fused-rmsnorm --pipeline-model-parallel-size two --micro-batch-size 4").micro_batch_size == 4
    )
