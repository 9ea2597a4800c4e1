"""torchtitan's main: what its own start made of files, its flavors, and what a configuration leaves at main's defaults."""

from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, Schedule
from cost_models.shapes.switches import FUSED_KERNELS
from cost_models.shapes.workload import TrainingJob
from frameworks.framework import ReadingError, Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.registry import parse_target
from frameworks.rule import layout_of
from frameworks.torchtitan.flavors import FLAVORS_MAIN
from frameworks.torchtitan.framework import TORCHTITAN_MAIN
from tests.unit.frameworks.torchtitan_main_cases import DENSE, on_main

STARTS = json.loads((Path(__file__).parents[2] / "oracle" / "torchtitan_main_starts.json").read_text(encoding="utf-8"))
IDS = [f"{row['preset']}-{row['devices']}-{index}" for index, row in enumerate(STARTS)]
BASE = {
    "model_spec.name": "llama3",
    "model_spec.flavor": "8B",
    "parallelism.data_parallel_shard_degree": 8,
    "training.max_context_length": 8192,
    "loss": "ChunkedLossWrapper",
    "optimizer": "default_adamw",
}
STATED = {**BASE, "training.disable_cuda_graphs": True, "activation_checkpoint": "None"}


def options(changes: dict[str, Any], base: dict[str, Any] = STATED) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in {**base, **changes}.items()]


def _of(family: str, flavor: str, tokens: int) -> dict[str, Any]:
    return {"model_spec.name": family, "model_spec.flavor": flavor, "training.max_context_length": tokens}


def unread(changes: dict[str, Any], base: dict[str, Any] = STATED) -> set[str]:
    return {entry.name for entry in TORCHTITAN_MAIN.read_job(options(changes, base), None).unread}


def test_main_accepted_files_of_every_family() -> None:
    assert {row["said"]["verdict"] for row in STARTS} == {"accept"}
    assert {row["said"]["loss"] for row in STARTS} == {"ChunkedLossWrapper"}
    families = Counter(json.loads(row["arguments"][0].partition("=")[2]) for row in STARTS)
    assert {*families} == {"llama3", "qwen3", "deepseek_v3"}
    assert min(families.values()) >= 15
    told = [dict(entry.split("=", 1) for entry in row["arguments"]) for row in STARTS]
    for name in ("data_parallel_replicate", "pipeline_parallel", "context_parallel", "tensor_parallel", "expert_parallel"):
        assert max(int(each.get(f"parallelism.{name}_degree", 1)) for each in told) > 1, name
    assert {each["activation_checkpoint"] for each in told} == {'"None"', '"FullAC"', '"SelectiveAC"'}


@pytest.mark.parametrize("row", STARTS, ids=IDS)
def test_main_makes_of_a_file_what_the_plan_says(row: dict[str, Any]) -> None:
    job, said = TORCHTITAN_MAIN.read_job(row["arguments"], None), row["said"]
    s, model = job.strategy, job.model
    assert job.unread == ()
    assert job.seq_length is not None
    made = on_main((model_name := json.loads(row["arguments"][0].partition("=")[2]), _flavor(row)), chunks=job.loss_chunks or 0)
    assert model_name in model.name
    workload = replace(
        made,
        training=TrainingJob(job.seq_length, job.global_batch_size),
        cluster=replace(made.cluster, num_devices=row["devices"]),
    )
    assert s.tp * s.cp * s.pp * s.dp == said["world"] == row["devices"]
    layout = layout_of(workload, s)
    for place, rank in zip(sorted({0, s.pp - 1}), said["ranks"], strict=True):
        held = [chunk[place] for chunk in layout]
        assert rank["parameters"] == num_parameters(model).total
        assert rank["layers"] == held
        assert rank["micro_batches"] == job.global_batch_size // (s.micro_batch_size * s.dp)
        assert rank["recomputed"] == (0 if s.recompute is Recompute.NONE else sum(held))
        assert rank["schedule"] == {Schedule.NONE: "", Schedule.ONE_F_ONE_B: "Schedule1F1B"}.get(
            s.schedule, "ScheduleInterleaved1F1B"
        )
    assert TORCHTITAN_MAIN.write(workload, s).arguments == tuple(row["arguments"])


def _flavor(row: dict[str, Any]) -> str:
    return str(json.loads(row["arguments"][1].partition("=")[2]))


def test_the_flavors_are_those_that_meta_and_deepseek_publish() -> None:
    totals = {f"{name}/{flavor}": num_parameters(each.model).total for (name, flavor), each in FLAVORS_MAIN.items()}
    assert [round(totals[f"llama3/{size}"] / 1e9, 2) for size in ("1B", "3B", "8B", "70B")] == [1.24, 3.21, 8.03, 70.55]
    assert [round(totals[f"deepseek_v3/{size}"] / 1e9, 1) for size in ("16B", "236B", "671B")] == [15.7, 235.7, 671.0]
    assert ("llama4", "17bx16e") not in FLAVORS_MAIN


@pytest.mark.parametrize(
    ("family", "flavor", "longest"), [("llama3", "8B", 131072), ("qwen3", "30B-A3B", 40960), ("deepseek_v3", "236B", 16384)]
)
def test_the_longest_samples_are_read(family: str, flavor: str, longest: int) -> None:
    tokens = {"training.num_tokens_per_microbatch_per_dp_rank": longest}
    assert TORCHTITAN_MAIN.read_job(options({**_of(family, flavor, longest), **tokens}), None).seq_length == longest


def test_what_a_file_leaves_out_is_mains_default() -> None:
    job = TORCHTITAN_MAIN.read_job(options({}), None)
    s = job.strategy
    assert (job.loss_chunks, job.global_batch_size, s.micro_batch_size, s.zero_stage) == (8, 16, 2, 3)
    assert not s.features & FUSED_KERNELS
    # CUDA graphs and checkpoints by operator are on by default; the former have no price, the latter none with experts.
    assert unread({}, BASE) == {"training.disable_cuda_graphs"}
    assert TORCHTITAN_MAIN.read(options({}, BASE), None).recompute_modules is RecomputeModule.EVERY_OTHER_MATMUL
    experts = {"model_spec.name": "qwen3", "model_spec.flavor": "30B-A3B"}
    assert unread(experts, BASE) == {"training.disable_cuda_graphs", "activation_checkpoint"}
    assert unread({"parallelism.tensor_parallel_degree": 2}, BASE) == {"training.disable_cuda_graphs", "activation_checkpoint"}
    assert unread(experts) == unread({}) == set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": "MSELoss"}, "loss is MSELoss"),
        ({"loss": None}, "loss is None"),
        ({"loss.loss_fn": "MTPLoss"}, "loss.loss_fn is MTPLoss"),
        ({"model_spec.name": "gpt_oss"}, "windows, documents and sinks"),
        ({"model_spec.flavor": "9B"}, "no flavor that is known"),
        ({"training.max_context_length": 131073}, "131073 tokens are longer than the 131072 rotary positions of llama3 8B"),
        (_of("qwen3", "8B", 40961), "longer than the 40960"),
        (_of("qwen3", "debugmodel", 8192), "longer than the 4096"),
        (_of("qwen3", "debugmodel_moe", 8192), "longer than the 4096"),
        (_of("deepseek_v3", "671B", 16385), "longer than the 16384"),
        ({"training.num_tokens_per_microbatch_per_dp_rank": 12288}, "does not divide by samples of 8192 tokens"),
        ({"parallelism.data_parallel_shard_degree": 0}, "neither a number of ranks nor -1"),
        ({"parallelism.expert_parallel_degree": 7}, "7 does not divide the 8 ranks that share the weights"),
        ({"training.num_tokens_per_train_step": 100000}, "does not divide by 131072 tokens"),
        (
            {"parallelism.pipeline_parallel_degree": 2, "training.num_tokens_per_train_step": 262144},
            "runs the pipeline 2 times a step",
        ),
    ],
)
def test_what_has_no_price_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ReadingError, match=words):
        TORCHTITAN_MAIN.read_job(options(changes), None)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_spec.converters": "x"},
        {"model_spec.num_mtp_layers": 1},
        {"model_spec.moe_comm_backend": "deepep"},
        {"parallelism.spmd_backend": "partial_dtensor"},
        {"activation_checkpoint": "MemoryBudgetAC"},
        {"override.imports": ["mine.kernel"]},
        {"loss.of_my_own": 1},
    ],
)
def test_options_that_change_the_price_are_not_passed_over(changes: dict[str, Any]) -> None:
    assert unread(changes) == {*changes}


def test_a_pipeline_with_graphs_does_not_start() -> None:
    said = {"parallelism.pipeline_parallel_degree": ("2",)}
    assert TORCHTITAN_MAIN.refused_at_start(said)
    assert not TORCHTITAN_MAIN.refused_at_start({**said, "training.disable_cuda_graphs": ("true",)})


def test_the_file_is_one_function_of_literals() -> None:
    launch = launch_block(DENSE, ParallelStrategy(dp=64, zero_stage=3))["torchtitan"]
    suffix, text = launch_file("torchtitan", launch, Start("Plan", 64, 8))
    assert suffix == "py"
    (function,) = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
    assert function.name == "plan"
    assert "loss=ChunkedLossWrapper.Config(" in text
    assert "global_vocab_size=128256" in text
    assert "--module plan --config plan" in text


def test_both_names_of_the_release_mean_it() -> None:
    assert parse_target("torchtitan@main").label == parse_target("torchtitan@2026.08").label == "torchtitan@2026.08"
    assert parse_target("torchtitan").label == "torchtitan@0.2.2"
