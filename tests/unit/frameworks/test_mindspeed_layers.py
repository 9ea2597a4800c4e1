"""What MindSpeed-LLM's own start needs of a launch file, so that it builds the model's layers and accepts the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.model_constants import ModelConstants, RouterConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape
from frameworks.launch import launch_block
from frameworks.mindspeed_llm import writer
from frameworks.mindspeed_llm.specs import SPECS, TRAITS, traits_of, unbuilt
from frameworks.mindspeed_llm.table import RELEASE
from frameworks.release import problems, read_tokens
from tests.unit.frameworks.legality_workloads import DENSE, DENSE_PLAN, LATENT, MIXTURE, MIXTURE_PLAN, PANGU, job

GATED = replace(MIXTURE, constants=ModelConstants(router=RouterConstants(shared_expert_gate=True)))
OVER_HEADS = replace(MIXTURE, qk_layernorm=True, constants=replace(MIXTURE.constants, qk_norm_over_heads=True))
WITHOUT_TP = replace(MIXTURE_PLAN, tp=1, dp=32, sequence_parallel=False)
UP_PROJ = replace(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLA_UP_PROJ)


def given(model: ModelShape, plan: ParallelStrategy) -> dict[str, tuple[str, ...]]:
    read, stray = read_tokens(RELEASE, list(writer.arguments(job(model), plan).arguments))
    assert stray == []
    assert problems(RELEASE, read) == []
    return read


@pytest.mark.parametrize(
    ("model", "module", "switch"),
    [
        (DENSE, "", ""),
        (MIXTURE, "", ""),
        (replace(DENSE, qk_layernorm=True), "qwen3_spec", "qk-layernorm"),
        (replace(MIXTURE, qk_layernorm=True), "qwen3_spec", "qk-layernorm"),
        (LATENT, "deepseek_spec", "multi-latent-attention"),
        (replace(LATENT, qk_layernorm=True), "deepseek_spec", "qk-layernorm"),
        (replace(DENSE, sandwich_norm=True), "gemma2_spec", "post-norm"),
        (replace(DENSE, sandwich_norm=True, qk_layernorm=True), "gemma2_spec", "post-norm"),
        (GATED, "qwen2_moe_spec", "shared-expert-gate"),
        (OVER_HEADS, "minimax_spec", "qk-layernorm"),
    ],
)
def test_layers_that_are_not_plain_are_built_by_the_specification_of_a_family(
    model: ModelShape, module: str, switch: str
) -> None:
    read = given(model, DENSE_PLAN if model.moe is None else WITHOUT_TP if model is OVER_HEADS else MIXTURE_PLAN)
    assert read.get("spec") == ((f"mindspeed_llm.tasks.models.spec.{module}", "layer_spec") if module else None)
    assert not switch or switch in read
    assert read["transformer-impl"] == ("local",)


def test_specifications_honour_traits_that_models_can_have() -> None:
    assert {trait for spec in SPECS for trait in spec.honours} <= set(TRAITS)


def test_a_model_that_no_specification_builds_is_not_launchable() -> None:
    assert unbuilt(PANGU) == ("norms behind attention and MLP",)
    assert traits_of(PANGU) == ("latent attention", "norms behind attention and MLP")
    entry = launch_block(job(PANGU), replace(MIXTURE_PLAN, tp=2, ep=32))["mindspeed-llm"]
    assert not entry["launchable"]
    assert any("no --spec of MindSpeed-LLM builds such layers" in note for note in entry["notes"])


def test_a_norm_over_all_heads_runs_with_tp_1() -> None:
    """The specification stops over tp, since a rank has a part of the heads [mindspeed-llm, minimax_spec.py]."""
    assert launch_block(job(OVER_HEADS), WITHOUT_TP)["mindspeed-llm"]["launchable"]
    entry = launch_block(job(OVER_HEADS), MIXTURE_PLAN)["mindspeed-llm"]
    assert not entry["launchable"]
    assert any("norms of queries and keys over all heads" in note and "tp" in note for note in entry["notes"]), entry["notes"]


def test_recomputed_up_projections_over_tp_come_with_what_mindspeed_llm_asks_for() -> None:
    wanted = {"recompute-mla-up-proj", "mla-up-proj-tp-overlap", "mla-mm-split", "sequence-parallel"}
    launch = writer.arguments(job(LATENT), UP_PROJ)
    assert wanted <= set(given(LATENT, UP_PROJ))
    assert any("--mla-up-proj-tp-overlap" in note and "--mla-mm-split" in note for note in launch.notes)
    alone = given(LATENT, replace(UP_PROJ, tp=1, dp=32, sequence_parallel=False))
    assert "recompute-mla-up-proj" in alone
    assert not {"mla-up-proj-tp-overlap", "mla-mm-split"} & set(alone)
    without, _ = read_tokens(RELEASE, [word for word in launch.arguments if word != "--mla-up-proj-tp-overlap"])
    assert any(
        "needs mla-up-proj-tp-overlap [mindspeed-llm, mla_feature.py]" in problem for problem in problems(RELEASE, without)
    )


def test_values_of_latent_attention_are_not_padded_as_no_price_counts_padding() -> None:
    assert "mla-fa-without-pad" in given(LATENT, MIXTURE_PLAN)
    eager = replace(MIXTURE_PLAN, features=MIXTURE_PLAN.features & ~Feature.FLASH_ATTENTION)
    assert "mla-fa-without-pad" not in given(LATENT, eager)
    assert "mla-fa-without-pad" not in given(MIXTURE, MIXTURE_PLAN)


def test_what_would_leave_norms_out_is_left_out_of_a_model_with_four_norms() -> None:
    plan = replace(
        DENSE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT
    )
    read = given(replace(DENSE, sandwich_norm=True), plan)
    assert "recompute-norm" not in read
    assert "recompute-activation-function" in read
    assert "recompute-norm" in given(DENSE, plan)


def test_no_specification_builds_prediction_of_further_tokens_behind_four_norms() -> None:
    assert unbuilt(replace(DENSE, sandwich_norm=True)) == ()
    assert unbuilt(replace(DENSE, sandwich_norm=True, mtp_num_layers=1)) == ("multi-token prediction behind such norms",)
