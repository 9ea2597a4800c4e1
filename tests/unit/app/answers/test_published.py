"""The plan to beat is the recipe that a vendor publishes for the job, where there is one that runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from app.answers.published import published_plans
from app.answers.search import search_document
from app.catalogue.models.presets import names, resolve_model
from app.catalogue.recipes import Recipe, recipes
from app.jobs.job import Job, parse_job
from cost_models.shapes.workload import ModelShape
from frameworks.legality import violations
from hardware_profiles import catalogue
from tests.commands import command

LLAMA = {
    "model": "llama-3.1-70b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 64},
    "training": {"seq_length": 8192, "global_batch_size": 256},
    "software": {"target": "megatron-lm@0.19"},
    "search": {"tp": [4], "pp": [4], "cp": [2], "micro_batch_size": [1], "vpp": [5], "recompute": ["none"], "top": 3},
}
NARROW = ("--tp", "2", "--pp", "1", "--micro-batch-size", "1", "--recompute", "full")


def job(**changes: dict[str, Any] | str) -> Job:
    made: dict[str, Any] = dict(LLAMA)
    for section, values in changes.items():
        made[section] = {**made[section], **values} if isinstance(values, dict) else values
    return parse_job(made)


@cache
def preset_models() -> tuple[ModelShape, ...]:
    return tuple(resolve_model(name)[0] for name in names())


def profile_of(recipe: Recipe) -> str:
    return next(name for name in catalogue.names() if catalogue.profile(name).device == recipe.devices[0])


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.title.split(" ")[0])
def test_a_recipe_has_a_source_and_its_plan_is_legal_at_its_size(recipe: Recipe) -> None:
    assert re.fullmatch(r"https://github\.com/[\w/.-]+/blob/[0-9a-f]{8}/[\w/.-]+(#L\d+)?", recipe.source)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", recipe.date)
    assert recipe.vendor in {"NVIDIA", "Ascend"}
    known = {catalogue.profile(name).device for name in catalogue.names()}
    assert set(recipe.devices) <= known
    models = [model for model in preset_models() if recipe.trains(model)]
    if not models:
        return  # of a model that has no preset
    target = "megatron-lm@0.19" if recipe.vendor == "NVIDIA" else "mindspeed-llm@master"
    made = parse_job(
        {
            "model": models[0].name,
            "cluster": {"hardware": profile_of(recipe), "num_devices": recipe.num_devices},
            "training": {
                "seq_length": recipe.seq_length,
                "global_batch_size": recipe.global_batch_size,
                "precision": recipe.precision,
            },
            "software": {"target": target},
            "strategy": dict(recipe.strategy),
        }
    )
    assert made.strategy is not None
    assert not violations(made.workload, made.strategy)


def test_the_recipe_of_the_job_is_the_plan_to_beat_with_its_source_and_error() -> None:
    document = search_document(job())
    assert document.baseline is not None
    assert document.baseline.source == "published"
    assert document.baseline.publication is not None
    # NVIDIA's recipe for 64 H100 [megatron-bridge, perf_recipes/llama/h100/llama3.py]
    strategy = document.baseline.strategy
    assert (strategy.tp, strategy.pp, strategy.vpp, strategy.cp, strategy.dp, strategy.micro_batch_size) == (4, 4, 5, 2, 2, 1)
    assert "tp_comm_overlap" in strategy.features
    assert document.baseline.publication.source.endswith("llama/h100/llama3.py#L118")
    assert document.paired_error is not None
    assert document.baseline.error_fraction == document.paired_error.fraction


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "llama3_70b_pretrain_64gpu_h100_bf16 of Megatron-Bridge"),
        ({"cluster": {"num_devices": 256}}, "llama3_70b_pretrain_64gpu_h100_bf16 of Megatron-Bridge"),
        ({"training": {"precision": "fp8"}}, "llama3_70b_pretrain_64gpu_h100_fp8cs of Megatron-Bridge"),
        ({"training": {"seq_length": 4096}}, "llama3_70b_pretrain_64gpu_h100_bf16 of Megatron-Bridge"),
        ({"training": {"seq_length": 32768}}, None),
        ({"cluster": {"hardware": "a100-sxm-80gb"}}, None),
        ({"cluster": {"num_devices": 24}}, None),
        ({"model": "llama-2-70b"}, None),
        ({"model": "mixtral-8x7b"}, None),
        (
            {
                "model": "qwen3-235b-a22b",
                "cluster": {"hardware": "gb300-nvl72", "num_devices": 256},
                "training": {"seq_length": 4096},
            },
            "qwen3_235b_a22b_pretrain_256gpu_gb300_bf16 of Megatron-Bridge",
        ),
    ],
)
def test_a_recipe_is_found_by_shape_devices_precision_and_length(changes: dict[str, Any], first: str | None) -> None:
    found = published_plans(job(**changes))
    assert (found[0].title if found else None) == first


def test_a_model_is_recognised_by_its_dimensions_and_not_by_its_name() -> None:
    model = resolve_model("llama-3.1-70b")[0]
    (recipe,) = [each for each in recipes() if each.title.startswith("llama3_70b_pretrain_64gpu_h100_bf16 ")]
    assert recipe.trains(replace(model, name="ours", vocab_size=129024))
    assert not recipe.trains(replace(model, num_layers=72))


def test_without_a_recipe_the_rule_is_stated_and_a_given_plan_stays_the_one_to_beat() -> None:
    ruled = search_document(
        job(training={"seq_length": 32768, "global_batch_size": 64}, search={"cp": [4], "recompute": ["full"]})
    ).baseline
    assert ruled is not None
    assert (ruled.source, ruled.publication) == ("rule_of_thumb", None)
    assert "the plan with the least model parallelism that fits, with full recompute" in ruled.why
    own = parse_job({**LLAMA, "strategy": {"tp": 8, "pp": 2, "recompute": "full"}})
    given = search_document(own).baseline
    assert given is not None
    assert (given.source, given.publication) == ("given", None)


def test_the_first_lines_name_the_vendor_and_the_reasons_the_recipe_and_its_source() -> None:
    flags = ("qwen3-8b", "--hardware", "atlas-800t-a2", "--devices", "8", "--seq-length", "4096", "--global-batch-size", "64")
    answer = command("search", *flags, *NARROW, "--show", "reasons")
    gain = next(line for line in answer.stdout.splitlines() if line.startswith("Gain"))
    assert "Ascend's published recipe (" in gain
    said = " ".join(answer.stdout.split())
    assert "pretrain_qwen3_8b_4K_ptd.sh of MindSpeed-LLM, for 8 devices" in said
    assert "here PP2 DP4 MBS1 reuse_fp32_param" in said
    document = json.loads(command("search", *flags, *NARROW, "--json").stdout)
    assert document["baseline"]["publication"]["vendor"] == "Ascend"
