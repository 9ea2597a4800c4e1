"""Launch files that others wrote: variables, arrays, quotes, comments, former names, and sentences for what is wrong."""

from __future__ import annotations

import pytest

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from tests.oracle.launch_files.parsing import parse_arguments, parse_launch
from tests.oracle.launch_files.shell import LaunchFileError, read_script

SCRIPT = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
NPUS_PER_NODE=8
NNODES=4
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))
DATA_PATH="your data path"   # a prefix
TP=4
PP=${PP:-2}
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \\
    --nnodes $NNODES
"
# the model
MODEL_ARGS=(
    --num-layers 32     # in all
    --hidden-size 4096
    --num-attention-heads 32
    --swiglu
)
GPT_ARGS="
    --use-mcore-models \\
    --tensor-model-parallel-size ${TP} \\
    --pipeline-model-parallel-size ${PP} \\
    --num-layers-per-virtual-pipeline-stage 4 \\
    --sequence-parallel \\
    --micro-batch-size 2 --global-batch-size=64 \\
    --seq-length 4096 \\
    --use-distributed-optimizer --overlap-grad-reduce \\
    --use-flash-attn --use-fused-rmsnorm --use-mc2 \\
    --recompute-granularity full --recompute-method block --recompute-num-layers 2 \\
    --recompute-activation-function \\
    --bf16
"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \\
    $GPT_ARGS \\
    "${MODEL_ARGS[@]}" \\
    --data-path $DATA_PATH \\
    --distributed-backend nccl | tee logs/train.log
"""


def test_a_script_of_the_framework_is_read_as_bash_would_run_it() -> None:
    read = parse_launch(SCRIPT)
    assert (read.framework, read.num_devices) == ("mindspeed-llm", 32)
    expected = ParallelStrategy(
        tp=4,
        pp=2,
        dp=4,  # 32 / (4 x 2)
        vpp=4,  # 32 layers / 2 stages / 4 in a chunk
        micro_batch_size=2,
        sequence_parallel=True,
        schedule=Schedule.INTERLEAVED,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.BLOCK,
        recompute_num_layers=2,
        recompute_modules=RecomputeModule.MLP_ACT,
        features=(Feature.FLASH_ATTENTION | Feature.FUSED_NORM | Feature.MC2 | Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_P2P),
    )
    assert read.strategy == expected
    assert read.model["num_layers"] == 32
    assert read.model["gated_linear_unit"] is True
    assert read.training == {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"}
    assert read.problems == ()


def test_a_list_of_arguments_needs_no_script() -> None:
    read = parse_launch("--tensor-model-parallel-size 2 --context-parallel-size 4 --cp-comm-type a2a --micro-batch-size 1")
    assert (read.framework, read.num_devices) == ("megatron-lm", 8)
    assert (read.strategy.cp_algo, read.strategy.ulysses_degree) == (CpAlgo.ULYSSES, 4)


def test_the_frameworks_defaults_hold_for_what_is_not_written() -> None:
    # Megatron: experts are split as the layers are, and reached by all-gather, unless told otherwise.
    base = ["--num-experts", "8", "--tensor-model-parallel-size", "2", "--micro-batch-size", "1", "--disable-bias-linear"]
    read = parse_arguments(base, framework="megatron-lm", num_devices=8)
    assert (read.strategy.etp, read.strategy.dispatcher) == (2, Dispatcher.ALLGATHER)
    ascend = parse_arguments(
        ["--context-parallel-size", "2", "--micro-batch-size", "1"], framework="mindspeed-llm", num_devices=8
    )
    assert ascend.strategy.cp_algo is CpAlgo.RING


def test_unknown_arguments_are_named_and_the_rest_is_read() -> None:
    read = parse_arguments(["--tensor-model-paralel-size", "8", "--micro-batch-size", "4"], framework="megatron-lm")
    assert read.strategy.micro_batch_size == 4
    (problem,) = read.problems
    assert problem.endswith("the nearest is tensor-model-parallel-size.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo hello", "no training command"),
        ("", "no training command"),
        ("parallel_config: {data_parallel: two}", "'two' is not allowed; give a whole number from 1"),
        (
            "parallel_config: {pipeline_stage: 2}\nmodel: {model_config: {num_hidden_layers: 5, offset: [0, 0]}}",
            "does not place 5",
        ),
        ("parallel_config: [", "no valid YAML"),
        ("--tensor-model-parallel-size 0", "give 1 to"),
        ("--num-layers 30 --pipeline-model-parallel-size 4", "not a multiple of 4 ranks"),
        ("--use-ascend-mc2 --num-layers 8 --pipeline-model-parallel-size 2 --noop-layers 9", "noop-layers has 9"),
        ("--num-layers 2 --pipeline-model-parallel-size 4", "do not fit num-layers 2"),
        ("--data-path 'x", "near"),
        ("x" * 300_000, "300000 characters"),
    ],
)
def test_a_file_that_cannot_be_read_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(LaunchFileError) as caught:
        parse_launch(text)
    assert str(caught.value).startswith("launch file: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_devices_must_hold_whole_replicas() -> None:
    with pytest.raises(LaunchFileError, match="tp 4 x pp 1 x cp 1 = 4 devices of a replica do not divide the 6"):
        parse_arguments(["--tensor-model-parallel-size", "4"], framework="megatron-lm", num_devices=6)
    with pytest.raises(LaunchFileError, match="'deepspeed' is not known; use one of megatron-lm"):
        parse_arguments([], framework="deepspeed")


def test_nothing_of_a_script_is_run() -> None:
    script = read_script('A=$(touch planted)\npretrain_gpt.py --seed `id` --load "$(whoami)"')
    assert script.arguments == ["--seed", "`id`", "--load", "$(whoami)"]


def test_dualpipev_folds_the_layers_of_the_deepseek_v3_script_over_two_chunks_a_rank() -> None:
    # [mindspeed-llm, pretrain_deepseek3_671b_4k_A3_ptd.sh]: 64 layers with three no-op ones at the end, over pp 8: 4 a chunk, and
    # the last chunk, which rank 0 holds beside the first, has one layer.
    written = "--num-layers 64 --noop-layers 61,62,63 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 8"
    written += " --schedules-method dualpipev --dualpipev-dw-detach --moe-fb-overlap --moe-grouped-gemm --num-experts 256"
    written += " --moe-token-dispatcher-type alltoall --expert-model-parallel-size 32 --expert-tensor-parallel-size 1"
    written += " --sequence-parallel --untie-embeddings-and-output-weights --bf16 --moe-router-topk 8 --disable-bias-linear"
    read = parse_arguments(written.split(), framework="mindspeed-llm", num_devices=512)
    assert read.problems == ()
    strategy = read.strategy
    assert (strategy.schedule, strategy.vpp) == (Schedule.DUALPIPE_V, 2)
    assert strategy.layer_layout is None  # the V's default is the script's: four layers a chunk, one beside the head
    assert Feature.DUALPIPEV_DW_DETACH | Feature.MOE_COMM_OVERLAP in strategy.features
    assert Feature.OVERLAP_P2P not in strategy.features
    refused = parse_arguments(
        [*written.split(), "--num-layers-per-virtual-pipeline-stage", "4"], framework="mindspeed-llm", num_devices=512
    )
    assert any("num-layers-per-virtual-pipeline-stage" in problem for problem in refused.problems)


def test_a_group_of_micro_batches_is_read_where_chunks_take_turns() -> None:
    written = [
        "--num-layers",
        "8",
        "--pipeline-model-parallel-size",
        "2",
        "--microbatch-group-size-per-virtual-pipeline-stage",
        "4",
    ]
    for framework in ("megatron-lm", "mindspeed-llm"):
        flat = parse_arguments(written, framework=framework, num_devices=2).strategy
        turns = parse_arguments([*written, "--num-layers-per-virtual-pipeline-stage", "2"], framework=framework, num_devices=2)
        assert flat.microbatch_group_size_per_vp_stage == 0
        assert turns.strategy.microbatch_group_size_per_vp_stage == 4
