"""Two trainings that took place on 80 GB devices, part by part against a count by hand [llama-3; deepseek-v3]."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.calibrations.constants import constants_for
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.step.composition import estimate
from scripts.case_studies.ran_layouts import GIB, deepseek, fullest, llama, ran_section, rank_parts, without_products

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"


def test_deepseek_v3_on_2048_h800_by_hand() -> None:
    workload, strategy = deepseek()
    balanced = replace(workload, training=replace(workload.training, expert_load_factor=1.0, expert_counts=None))
    middle = rank_parts(balanced, strategy)[1]  # a stage of four MoE layers down the pipeline, one up
    projections = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    norms, shared, router = 1536 + 512 + 2 * 7168, 3 * 7168 * 2048, 7168 * 256
    dense, experts = projections + norms + shared + router, 4 * 3 * 7168 * 2048  # 256 experts over 64 ranks
    assert middle["weights"] == 2 * 8 * (dense + experts)
    assert middle["gradients"] == 4 * 8 * (dense + experts)  # FP32, whole under ZeRO-1
    # 2,048 / 16 = 128 replicas of what is dense, 2 of an expert; moments of 2 + 2 bytes
    assert middle["optimizer_master_weights"] == 4 * 8 * (dense / 128 + experts / 2)
    assert middle["optimizer_moments"] == middle["optimizer_master_weights"]
    held = 17 * 4 * 4096  # DualPipe: p + 1 micro batches of four layers [deepseek-v3, table 2], 4,096 tokens each
    assert middle["activations_residual"] == held * 2 * 2 * 7168
    assert middle["activations_norm_output"] == 0.0
    # latents before their norms, the rope key as it was and gathered, its angles, attention's output and statistics
    assert middle["activations_attention"] == held * (2 * (1536 + 512) + (2 + 2 + 4) * 64 + 2 * 128 * 128 + 4 * 128)
    assert middle["activations_routed_experts"] == held * 8 * (7168 + 2 * 2048)  # eight copies of a token, in 8 bits
    assert middle["activations_shared_experts"] == held * 3 * 2048  # in 8 bits; Megatron-Core makes none again
    # DeepEP: a token's eight choices lie in four groups of eight ranks with four experts each
    met = 32 * (1 - (120 * 119 * 118 * 117) / (128 * 127 * 126 * 125))
    maps = 8 * (8 + 8 + 4 * 8 + 4) + 64 * (1 + 4) + met * (4 + 4 + 4 * (2 * 4 + 1))
    assert middle["activations_router"] == pytest.approx(held * (maps + 2 * 4 * 256))  # with two FP32 scores an expert
    assert middle["activations_mlp"] == middle["logits"] == 0.0


def test_both_ends_of_deepseek_v3_share_one_embedding() -> None:
    workload, strategy = deepseek()
    first = rank_parts(workload, strategy)[0]
    latent = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512 + 2 * 7168
    dense, moe = latent + 3 * 7168 * 18432, latent + 5 * 3 * 7168 * 2048 + 7168 * 256
    prediction = moe + 2 * 7168**2 + 3 * 7168
    assert first["weights"] == 2 * (3 * dense + 2 * moe + prediction + 2 * 129280 * 7168 + 7168)


def test_llama_405b_on_8192_h100_by_hand() -> None:
    second = rank_parts(*llama())[1]  # the first rank's first chunk has no layer
    layer = (2 * 16384**2 + 2 * 16384 * 1024 + 3 * 16384 * 53248) / 8 + 2 * 16384
    assert second["weights"] == 2 * 8 * layer
    assert second["gradients"] == 4 * 8 * layer / 64  # FP32, shared by 64 replicas
    assert second["optimizer_master_weights"] + second["optimizer_moments"] == 12 * 8 * layer / 64
    # 2 (16 - 1 - 1) + (8 - 1) 16 + 1 = 141 chunks of one layer, a device's eighth of 8,192 tokens each
    held = 141 * 8192 / 8
    assert second["activations_residual"] == second["activations_norm_output"] == held * 2 * 2 * 16384
    assert second["activations_attention"] == held * (2 * 128 * (128 + 2 * 8) + 2 * 128 * 128 + 4 * 128)
    assert second["activations_mlp"] == held * 3 * 2 * 53248
    # gathered input, gradients of gate and up, their weights' gradient in 16 bits, and a layer's in FP32 until it is scattered
    gate_and_up = 2 * 53248 / 8
    working_set = 2 * 8192 * 16384 + 2 * 8192 * gate_and_up + 2 * 16384 * gate_and_up + 4 * layer
    assert second["working_set"] == pytest.approx(working_set)


def test_what_ran_is_found_to_fit_where_its_report_says_what_is_kept() -> None:
    workload, strategy = deepseek()
    lacking = [replace(strategy, features=strategy.features & ~f) for f in (Feature.FP8_ACTIVATION_INPUT, Feature.BF16_MOMENTS)]
    found = estimate(workload, StrategyBatch.of([strategy, *lacking]), constants_for(workload))
    inside = found.peak_memory_bytes <= found.memory_limit_bytes  # the expectation; a confidence asks for more
    assert inside.tolist() == [True, False, False]


def test_the_byte_in_doubt_of_405b_decides_whether_it_fits() -> None:
    workload, strategy = llama()
    lean = without_products(strategy)
    found = estimate(workload, StrategyBatch.of([strategy, lean]), constants_for(workload))
    assert (found.peak_memory_bytes <= found.memory_limit_bytes).tolist() == [False, True]
    kept, made_again = (fullest(rank_parts(workload, form)) for form in (strategy, lean))
    doubt = kept["MLP and experts"] - made_again["MLP and experts"]
    assert doubt == 141 * 2 * 53248 * 8192 / 8  # the product of gate and up, 14.3 GiB
    over = sum(kept.values()) - workload.cluster.profile.usable_hbm_bytes
    assert 0 < over / GIB < 5
    assert over < doubt


def test_the_page_says_what_the_script_counts() -> None:
    assert ran_section() in PAGE.read_text(encoding="utf-8")
