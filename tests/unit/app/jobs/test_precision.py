"""Precision of a job and how its operands are scaled: names, defaults, and what a chip refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.answers.targets import with_usual_target
from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from documents.errors import InputError


def document(hardware: str, **training: Any) -> dict[str, Any]:
    return {
        "model": "qwen3-8b",
        "cluster": {"hardware": hardware, "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64, **training},
    }


def said(job: Job) -> tuple[str, str | None]:
    return job.workload.training.precision, job.workload.training.fp8_recipe


@pytest.mark.parametrize(
    ("hardware", "training", "expected"),
    [
        ("gb200-nvl72", {"precision": "mxfp8"}, ("fp8", "mxfp8")),
        ("gb200-nvl72", {"precision": "fp8", "fp8_recipe": "mxfp8"}, ("fp8", "mxfp8")),
        ("h100-sxm-80gb", {"precision": "fp8", "fp8_recipe": "blockwise"}, ("fp8", "blockwise")),
        ("h100-sxm-80gb", {"precision": "fp8"}, ("fp8", None)),  # priced without scales, as ever
        ("mi355x", {"precision": "mxfp8"}, ("fp8", "mxfp8")),
        ("ascend-950pr", {"precision": "hif8"}, ("hif8", "tensorwise")),
        ("ascend-950pr", {"precision": "fp8"}, ("fp8", "mxfp8")),  # as MindSpeed-LLM's own scripts
        ("ascend-950pr", {"precision": "fp8", "fp8_recipe": "mxfp8-32x32"}, ("fp8", "mxfp8-32x32")),
        ("ascend-950pr", {}, ("bf16", None)),
    ],
)
def test_precision_and_recipe(hardware: str, training: dict[str, Any], expected: tuple[str, str | None]) -> None:
    job = parse_job(document(hardware, **training))
    assert said(job) == expected
    again = parse_job(job.document)  # a stored job means the same
    assert said(again) == expected
    assert again.document == job.document


@pytest.mark.parametrize(
    ("hardware", "training", "sentence"),
    [
        (
            "h100-sxm-80gb",
            {"precision": "mxfp8"},
            "training.fp8_recipe: 'mxfp8' does not run on h100-sxm-80gb [transformer-engine, quantization.py]; "
            "give one of delayed, tensorwise, blockwise.",
        ),
        (
            "l40s-48gb",
            {"precision": "fp8", "fp8_recipe": "blockwise"},
            "training.fp8_recipe: 'blockwise' does not run on l40s-48gb [transformer-engine, quantization.py]; "
            "give one of delayed, tensorwise.",
        ),
        (
            "mi300x",
            {"precision": "fp8", "fp8_recipe": "blockwise"},
            "training.fp8_recipe: 'blockwise' does not run on mi300x [transformer-engine-rocm, quantization.py]; "
            "give one of delayed, tensorwise.",
        ),
        (
            "gb200-nvl72",
            {"precision": "hif8"},
            "training.precision: 'hif8' has no matmul rate on gb200-nvl72; give one of bf16, fp16, fp32, fp8, mxfp8, nvfp4.",
        ),
        (
            "a100-sxm-80gb",
            {"precision": "mxfp8"},
            "training.precision: 'mxfp8' has no matmul rate on a100-sxm-80gb; give one of bf16, fp16, fp32.",
        ),
        (
            "ascend-950pr",
            {"precision": "hif8", "fp8_recipe": "mxfp8"},
            "training.fp8_recipe: 'mxfp8' does not go with training.precision hif8, which is tensorwise; leave it out.",
        ),
        (
            "ascend-950pr",
            {"precision": "bf16", "fp8_recipe": "mxfp8"},
            "training.fp8_recipe: 'mxfp8' is of 8 bits, and training.precision is bf16; leave it out.",
        ),
        (
            "ascend-950pr",
            {"precision": "mxfp4"},
            "training.precision: 'mxfp4' is not priced: no target multiplies in it. MindSpeed-LLM's --qat-scheme casts to it and "
            "multiplies in 16 bits, and of Transformer Engine only AMD's fork has it. Give one of bf16, fp16, fp8, mxfp8, hif8, "
            "nvfp4, fp32.",
        ),
        (
            "ascend-950pr",
            {"precision": "nvfp4"},
            "training.precision: 'nvfp4' has no matmul rate on ascend-950pr; give one of bf16, fp16, fp8, hif8, mxfp8.",
        ),
        (
            "ascend-950pr",
            {"precision": "fp8", "fp8_param_gather": True},
            "training.fp8_param_gather: stack mindspeed-llm keeps no weights in fp8; leave it out.",
        ),
        (
            "gb200-nvl72",
            {"precision": "bf16", "fp8_param_gather": True},
            "training.fp8_param_gather: it is of fp8, and training.precision is bf16; leave it out.",
        ),
    ],
)
def test_what_a_chip_does_not_run_is_refused(hardware: str, training: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_job(document(hardware, **training))
    assert str(caught.value) == sentence


def test_a_search_takes_the_release_that_gathers_mxfp8() -> None:
    job = parse_job(document("gb200-nvl72", precision="mxfp8"))
    assert with_usual_target(job).workload.software.target == "megatron-lm@0.19"
    early = parse_job({**document("gb200-nvl72", precision="mxfp8"), "software": {"target": "megatron-lm@0.12"}})
    assert not early.workload.gathers_eight_bits
    assert job.workload.gathers_eight_bits
    assert "training.fp8_param_gather" in job.assumed
    assert "training.fp8_param_gather" not in parse_job(document("gb200-nvl72", precision="bf16")).assumed
    assert "training.fp8_param_gather" not in parse_job(document("ascend-950pr", precision="fp8")).assumed


def test_a_recipe_that_is_not_stated_is_listed() -> None:
    npus = parse_job(document("ascend-950pr", precision="fp8"))
    assert "training.fp8_recipe = mxfp8 (default of mindspeed-llm launch files)" in npus.assumptions
    assert "training.fp8_recipe" in parse_job(document("h100-sxm-80gb", precision="fp8")).assumed
    for training in ({"precision": "mxfp8"}, {"precision": "fp8", "fp8_recipe": "delayed"}, {"precision": "bf16"}):
        assert "training.fp8_recipe" not in parse_job(document("gb200-nvl72", **training)).assumed


@pytest.mark.parametrize("gathers", [True, False])
def test_whether_weights_are_gathered_in_8_bits_is_priced_and_kept(gathers: bool) -> None:
    job = parse_job({**document("b200-sxm-180gb", precision="mxfp8", fp8_param_gather=gathers), "strategy": {"tp": 2}})
    assert job.workload.gathers_eight_bits is gathers
    assert parse_job(job.document).workload == job.workload
    other = parse_job({**document("b200-sxm-180gb", precision="mxfp8", fp8_param_gather=not gathers), "strategy": {"tp": 2}})
    batch = StrategyBatch.of([ParallelStrategy(tp=2, pp=1, dp=4)])
    own, others = (estimate(each.workload, batch, constants_for(each.workload)).peak_memory_bytes[0] for each in (job, other))
    assert bool(own < others) == gathers  # weights of layers in 16 bits are not held


def test_a_gpu_of_unstated_compute_capability_gets_no_newer_recipe_and_says_so(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("like: h100-sxm-80gb\nname: own\ncompute_capability: null\n", encoding="utf-8")
    job = parse_job(document("own.yaml", precision="fp8"), folder=tmp_path)
    assert any("own states no compute_capability: it gets the recipes of 8.9" in warning for warning in job.warnings)
    assert not any("compute_capability" in warning for warning in parse_job(document("h100-sxm-80gb")).warnings)
    with pytest.raises(InputError, match="give one of delayed, tensorwise"):
        parse_job(document("own.yaml", precision="fp8", fp8_recipe="blockwise"), folder=tmp_path)


@pytest.mark.parametrize(
    ("zero_stage", "gathers", "is_said"), [(0, True, True), (1, True, False), (0, False, False), (0, None, False)]
)
def test_gathering_in_8_bits_without_a_sharded_optimizer_is_said_to_have_no_effect(
    zero_stage: int, gathers: bool | None, is_said: bool
) -> None:
    given = document("b200-sxm-180gb", precision="fp8", fp8_param_gather=gathers)
    job = parse_job({**given, "strategy": {"tp": 2, "zero_stage": zero_stage}})
    sentence = "training.fp8_param_gather has no effect: the optimizer is not sharded (strategy.zero_stage is 0)."
    assert (sentence in job.warnings) == is_said
