"""MindSpeed-LLM's FSDP2 backend: what its own start made of files, and what a file of it says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.presets import model_preset, names
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import TrainingJob
from frameworks.framework import ReadingError, ReadJob
from frameworks.launch import launch_block
from frameworks.mindspeed_llm_fsdp2.families import is_trained
from frameworks.mindspeed_llm_fsdp2.framework import MINDSPEED_FSDP2
from frameworks.mindspeed_llm_fsdp2.patterns import num_layers_of
from tests.unit.frameworks.mindspeed_fsdp2_cases import ALONE, EXPERTS, MIXTURE, QWEN, ROUTED, WORK, on_npus

STARTS = json.loads((Path(__file__).parents[2] / "oracle" / "fsdp2_starts.json").read_text(encoding="utf-8"))
PLANS = [row for row in STARTS if "preset" in row]
IDS = [f"{row['preset']}-{row['devices']}-{index}" for index, row in enumerate(PLANS)]
TRAINED = {
    "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-8b",
    "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-1.7b", "qwen3-4b", "qwen3-14b", "qwen2.5-7b", "qwen2.5-14b",
    "qwen2.5-32b",
}  # fmt: skip
BASE = {
    "model.model_name_or_path": "/data/Qwen3-8B/",
    "parallel.fsdp_size": 16,
    "training.stage": "pt",
    "data.data_manager_type": "mg",
    "training.deterministic": False,
}
OF_EXPERTS = {"model.model_id": "qwen3_moe", "parallel.ep_size": 4, "parallel.ep_fsdp_size": 4}


def options(changes: dict[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in {**BASE, **changes}.items()]


def read(devices: int | None = None, **changes: Any) -> ParallelStrategy:
    return MINDSPEED_FSDP2.read(options(changes), devices)


def job(changes: dict[str, Any], devices: int | None = None) -> ReadJob:
    assert MINDSPEED_FSDP2.named is not None
    given = options(changes)
    kind = MINDSPEED_FSDP2.named.model(given).kind
    return MINDSPEED_FSDP2.named.read_job(given, devices, MIXTURE if kind == "qwen3_moe" else QWEN)


def test_the_backend_accepted_files_of_every_preset_that_it_trains() -> None:
    assert {row["said"]["verdict"] for row in STARTS} == {"accept"}
    assert {row["preset"] for row in PLANS} == TRAINED == {name for name in names() if is_trained(model_preset(name).model)}
    counted = Counter(row["devices"] for row in PLANS)
    assert len(counted) == 3
    assert min(counted.values()) >= 40
    of_plans = [MINDSPEED_FSDP2.read(row["arguments"], None) for row in PLANS]
    assert {plan.cp_algo for plan in of_plans} == {CpAlgo.NONE, CpAlgo.RING, CpAlgo.ULYSSES}
    assert {plan.zero_stage for plan in of_plans} == {2, 3}
    assert {plan.recompute_method for plan in of_plans} == {*RecomputeMethod}
    assert max(plan.ep for plan in of_plans) > 1


@pytest.mark.parametrize("row", PLANS, ids=IDS)
def test_the_backend_makes_of_a_file_what_the_plan_says(row: dict[str, Any]) -> None:
    said, model = row["said"], model_preset(row["preset"]).model
    assert MINDSPEED_FSDP2.named is not None
    named = MINDSPEED_FSDP2.named.model(row["arguments"])
    assert named.path.endswith(row["preset"])
    made = MINDSPEED_FSDP2.named.read_job(row["arguments"], row["devices"], model)
    s, groups, values = made.strategy, said["groups"], said["values"]
    assert made.unread == ()
    shards = row["devices"] // s.ep if model.moe else 1  # a dense file states none
    replicas = row["devices"] // (shards * s.ep)
    of_experts = {"edp": replicas, "efsdp": shards, "ep": s.ep}
    assert groups == {"dp": 1, "fsdp": row["devices"], "tp": 1, "dp_fsdp": s.dp, "cp": s.cp, **of_experts}
    assert said["batch"] == made.global_batch_size == 2 * row["devices"]
    assert said["sharded"] == model.num_layers
    assert said["recomputed"] == _recomputed(s, model.num_layers)
    assert values["data.cutoff_len"] == made.seq_length == 32768
    assert values["parallel.reshard_after_forward"] is (s.zero_stage == 3)
    assert values["parallel.reduce_dtype"] == "fp32"
    assert values["training.per_device_train_batch_size"] == s.micro_batch_size
    if model.moe is not None:
        assert values["optimization.moe_grouped_gemm"] is (Feature.MOE_GROUPED_GEMM in s.features)
        assert values["optimization.use_fused_rmsnorm"] is (Feature.FUSED_NORM in s.features)
    workload = replace(on_npus(model), training=TrainingJob(32768, said["batch"]))
    workload = replace(workload, cluster=replace(workload.cluster, num_devices=row["devices"]))
    assert MINDSPEED_FSDP2.write(workload, s).arguments == tuple(row["arguments"])


def _recomputed(s: ParallelStrategy, num_layers: int) -> int:
    if s.recompute is Recompute.NONE:
        return 0
    return num_layers if s.recompute_method is RecomputeMethod.UNIFORM else s.recompute_num_layers


def test_defaults_are_those_of_the_backend() -> None:
    plain = MINDSPEED_FSDP2.read(['model.model_name_or_path="x"'], None)
    assert (plain.dp, plain.micro_batch_size, plain.zero_stage, plain.recompute) == (1, 8, 3, Recompute.NONE)
    assert not plain.features & (FUSED_KERNELS | Feature.GRAD_REDUCE_IN_BF16)
    assert Feature.FLASH_ATTENTION in plain.features
    assert read(**{"parallel.recompute": True}).recompute_method is RecomputeMethod.UNIFORM


def test_degrees_and_batch_are_read_as_the_trainer_counts_them() -> None:
    made = job({"parallel.cp_size": 4, "training.per_device_train_batch_size": 2, "training.gradient_accumulation_steps": 3})
    assert (made.strategy.dp, made.strategy.cp, made.strategy.cp_algo) == (4, 4, CpAlgo.ULYSSES)
    assert made.global_batch_size == 2 * 3 * 4
    assert read(16, **{"parallel.cp_size": 2, "parallel.cp_type": "ring"}).cp_algo is CpAlgo.RING
    assert read(**OF_EXPERTS).ep == 4


@pytest.mark.parametrize("text", ["yes", "True", "t", "Y", "1", 1, True])
def test_texts_are_read_as_the_parser_reads_them(text: Any) -> None:
    assert read(**{"parallel.recompute": text, "parallel.fsdp_size": "8"}).dp == 8
    assert read(**{"parallel.recompute": text}).recompute is Recompute.FULL
    assert read(**{"parallel.reshard_after_forward": "n"}).zero_stage == 2


def test_names_of_layers_are_counted_once() -> None:
    patterns = ["model.layers.{0-3}", "model.layers.{2-5}", "model.layers.{9-9}"]
    found = read(**{"parallel.recompute": True, "parallel.recompute_modules": patterns})
    assert (found.recompute_method, found.recompute_num_layers) == (RecomputeMethod.BLOCK, 7)  # 0 to 5, and 9


@pytest.mark.parametrize(
    ("patterns", "number"),
    [
        (["model.layers.{5-5}", "model.layers.{0-9}", "model.layers.{3-4}"], 10),
        (["model.layers.{0-1}", "model.layers.{4-5}"], 4),
        ([f"model.layers.{{{first}-999999}}" for first in range(5000)], 1_000_000),  # counted without a list of all
        (["model.layers.{3-2}"], None),
        (["model.layers.0"], None),
    ],
)
def test_ranges_of_layers_are_counted_by_their_ends(patterns: list[str], number: int | None) -> None:
    assert num_layers_of(patterns) == number


def test_kernels_are_those_that_the_layers_take() -> None:
    flags = {"optimization.use_fused_rmsnorm": True, "optimization.use_fused_rotary_pos_emb": True}
    assert not read(**flags).features & FUSED_KERNELS  # transformers' layers read none of them
    assert not read(**flags, **{"model.model_id": "qwen3"}).features & FUSED_KERNELS  # its patches look in other arguments
    fused = read(**flags, **{"model.model_id": "qwen3_moe"}).features
    assert fused & FUSED_KERNELS == Feature.FUSED_NORM | Feature.FUSED_ROPE
    grouped = read(**{"model.model_id": "qwen3_moe", "optimization.moe_grouped_gemm": True}).features
    assert grouped & (Feature.FUSED_SWIGLU | Feature.MOE_PERMUTE_FUSION | Feature.MOE_GROUPED_GEMM) == (
        Feature.FUSED_SWIGLU | Feature.MOE_PERMUTE_FUSION | Feature.MOE_GROUPED_GEMM
    )
    routed = {**OF_EXPERTS, "optimization.moe_grouped_gemm": True}
    assert Feature.MOE_PERMUTE_FUSION not in read(**routed).features  # the eager exchange sorts by PyTorch
    assert Feature.MOE_PERMUTE_FUSION in read(**routed, **{"parallel.ep_dispatcher": "fused"}).features
    assert Feature.GRAD_REDUCE_IN_BF16 in read(**{"parallel.reduce_dtype": "bf16"}).features


@pytest.mark.parametrize(
    ("changes", "devices", "words"),
    [
        ({"parallel.fsdp_size": 8}, 16, "fsdp_size is 8, and the job has 16"),
        ({"parallel.tp_size": 2}, None, "tp_size 2: parallel.fsdp_size is all devices"),
        ({"parallel.cp_size": 3}, None, "cp_size 3 does not divide"),
        ({"parallel.cp_size": 2, "parallel.cp_type": "kvallgather"}, None, "kvallgather has no price"),
        ({**OF_EXPERTS, "parallel.ep_fsdp_size": 2}, None, "ep_size 4 x parallel.ep_fsdp_size 2 is not parallel.fsdp_size 16"),
        ({"parallel.ep_size": 2, "parallel.ep_fsdp_size": 8}, None, "has no experts"),
        ({"model.model_id": "deepseek_v4"}, None, "sparse attention"),
        ({"model.model_id": "mamba3"}, None, "no attention"),
        ({"model.model_id": "glm4"}, None, "not known"),
        ({"parallel.fsdp_size": "many"}, None, "'many' is not allowed"),
        ({"parallel.recompute": "maybe"}, None, "'maybe' is not allowed"),
        ({"training.per_device_train_batch_size": 0}, None, "whole number from 1"),
    ],
)
def test_a_file_without_a_price_is_refused_in_one_sentence(changes: dict[str, Any], devices: int | None, words: str) -> None:
    with pytest.raises(ReadingError, match=words):
        job(changes, devices)


def test_a_file_without_a_model_says_where_it_comes_from() -> None:
    assert MINDSPEED_FSDP2.named is not None
    with pytest.raises(ReadingError, match="give the script that starts"):
        MINDSPEED_FSDP2.named.model(["parallel.fsdp_size=8"])
    with pytest.raises(ReadingError, match="states no sizes"):
        MINDSPEED_FSDP2.read_job(options({}), None)


def unread(changes: dict[str, Any]) -> set[str]:
    return {entry.name for entry in job(changes).unread}


def test_arguments_that_change_the_price_are_named_and_others_are_not() -> None:
    harmless = {
        "optimization.chunk_loss_size": 1024,  # without model_id the layers take no loss by parts
        "parallel.fsdp_modules": ["lm_head", "model.layers.{*}", "model.embed_tokens"],
        "parallel.ignored_modules": ["model.layers.{*}.mlp.router"],
        "training.adam_beta1": 0.9,
        "optimization.use_flash_attn": True,
        "model.quant_converters": ["quantize.linear.mx"],
    }
    assert unread(harmless) == set()
    priced_otherwise = {
        "model.quant_recipe_name": "mxfp8",
        "model.resize_vocab": True,
        "parallel.fsdp_implementation": "custom",
        "parallel.enable_chunk_batch": True,
        "parallel.num_to_forward_prefetch": 2,
        "parallel.param_dtype": "fp32",
        "parallel.fsdp_modules": ["model.layers.{*}"],
        "parallel.ignored_modules": ["model.layers.{*}.mlp.experts"],
        "parallel.recompute_modules": ["model.layers.{*}.mlp"],
        "training.optimizer": "muon",
        "parallel.fsdp_sizes": 8,
    }
    assert unread({"parallel.recompute": True, **priced_otherwise}) == set(priced_otherwise)
    own, chunks = {"model.model_id": "qwen3"}, "optimization.chunk_loss_size"
    assert unread({**own, chunks: 2048}) == {chunks}
    assert unread({**own, chunks: 2048, "training.stage": "sft"}) == set()
    assert unread({**OF_EXPERTS, "parallel.ep_dispatcher": "fused"}) == {"parallel.ep_dispatcher"}
    assert unread({**OF_EXPERTS, "parallel.ep_dispatcher": "mc2"}) == {"parallel.ep_dispatcher"}


def test_a_loss_by_chunks_is_read_where_layers_take_it() -> None:
    own, chunked = {"model.model_id": "qwen3"}, {"optimization.chunk_loss_size": 1024}
    found = job({**own, **chunked})
    assert found.unread == ()
    assert Feature.CHUNKED_LOSS in found.strategy.features
    for changes in (chunked, own, {**own, **chunked, "training.stage": "sft"}):
        assert Feature.CHUNKED_LOSS not in job(changes).strategy.features


def test_short_and_packed_samples_and_tasks_are_said() -> None:
    assert job({}).uneven == ()
    assert job({"data.packing": True}).uneven == ("data.packing",)
    tuned = job({"data.data_manager_type": "lf", "training.stage": "sft"})
    assert (tuned.uneven, tuned.task.name) == (("data.data_manager_type",), Task.SFT)
    assert job({"training.deterministic": True}).not_understood[0].startswith("training.deterministic is on")
    forced = {"optimization.fix_router": True}
    assert job({**OF_EXPERTS, **forced}).router_balance is RouterBalance.FORCED
    assert job({"model.model_id": "qwen3_moe", **forced}).router_balance is None  # the exchange alone has it


def test_a_far_plan_has_no_file_and_a_near_one_has() -> None:
    block = launch_block(WORK, replace(ALONE, tp=4, dp=16))[MINDSPEED_FSDP2.name]
    assert block["arguments"] is None
    assert block["notes"][-1] == "No file is written, since it would be of another plan."
    near = launch_block(ROUTED, replace(EXPERTS, etp=2, zero_stage=1))[MINDSPEED_FSDP2.name]
    assert "parallel.reshard_after_forward=true" in near["arguments"]
    assert sum("is written as" in note for note in near["notes"]) == 2
    mixtral = replace(MIXTURE, constants=ModelConstants("mixtral"))
    assert launch_block(on_npus(mixtral), EXPERTS)[MINDSPEED_FSDP2.name]["arguments"] is None
