"""Model FLOPs by hand and against the published formula."""

from dataclasses import replace

import pytest

from app.catalogue.models.presets import model_preset
from cost_models.shapes.flops import (
    MFU_CONVENTION,
    attended_length,
    attention_score_flops_per_token,
    layer_flops_per_token,
    model_flops_per_step,
    model_flops_per_token,
)
from tests.published_models import GEMMA_2_9B, MINIMAX_TEXT_01, MISTRAL_7B, QWEN3_NEXT_80B
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE, workload


def test_scores_of_one_token() -> None:
    # On average a token attends to half of the sequence: QK^T and PV are 2 x 2 x s/2 x H x d.
    assert attention_score_flops_per_token(DENSE, 2048) == 2 * 2048 * 8 * 128
    assert attention_score_flops_per_token(LATENT, 2048) == 2048 * 8 * (64 + 32 + 64)


def test_scores_under_a_window() -> None:
    # s w - w^2 / 2 pairs of query and key, 4 H d FLOPs each.
    assert attention_score_flops_per_token(MISTRAL_7B, 8192, local=True) == worked("window-flops")
    pairs = sum(min(position, 4096) for position in range(1, 8193))  # a query meets itself and up to 4,095 before it
    assert attention_score_flops_per_token(MISTRAL_7B, 8192, local=True) * 8192 == pytest.approx(4 * 32 * 128 * pairs, rel=2e-4)
    assert attended_length(MISTRAL_7B, 8192, local=True) == 4096 * (2 - 0.5)


@pytest.mark.parametrize("seq_length", [2048, 4096])
def test_a_window_as_long_as_the_sequence_is_full_attention(seq_length: int) -> None:
    whole = attention_score_flops_per_token(MISTRAL_7B, seq_length)
    assert attention_score_flops_per_token(MISTRAL_7B, seq_length, local=True) == whole


def test_a_recurrence_costs_the_same_at_any_length() -> None:
    for length in (1024, 1 << 20):
        assert attention_score_flops_per_token(QWEN3_NEXT_80B, length, local=True) == worked("delta-rule-flops")
        assert attention_score_flops_per_token(MINIMAX_TEXT_01, length, local=True) == 4 * 64 * 128 * 128


def test_a_recurrent_layer_passes_its_projections_and_its_convolution() -> None:
    # What Megatron-LM counts of a gated delta net: its projections, its convolution, four matmuls of 128 x 128 a value head.
    projections = 2048 * (2 * 2048 + 2 * 4096 + 2 * 32) + 2048 * 4096
    experts = 3 * 2048 * 512 * (10 + 1)
    expected = 2 * (projections + 4 * (2 * 2048 + 4096) + 32 * 4 * 128**2 + experts)
    assert layer_flops_per_token(QWEN3_NEXT_80B, 4096, moe=True, local=True) == expected


def test_a_model_sums_its_kinds_of_layers() -> None:
    full, local = (layer_flops_per_token(GEMMA_2_9B, 8192, moe=False, local=each) for each in (False, True))
    assert model_flops_per_token(GEMMA_2_9B, 8192) == pytest.approx(3 * (21 * full + 21 * local + 2 * 3584 * 256000))


def test_a_dense_layer() -> None:
    assert layer_flops_per_token(model_preset("llama-2-7b").model, 4096, moe=False) == worked("layer-flops")


def test_a_sparse_layer_counts_the_chosen_experts_and_no_router() -> None:
    attention = 2 * 1024 * 128 * 32 + 2 * 2048 * 8 * 128
    experts = 2 * 3 * 1024 * 512 * (2 + 1)  # two of sixteen, and the shared one
    assert layer_flops_per_token(SPARSE, 2048, moe=True) == attention + experts


def test_a_step_of_gpt3() -> None:
    # 72 B s l h^2 (1 + s / 12 h + V / 12 l h): the formula of [narayanan2021, eq. 3] without recompute, causal mask.
    job = workload(model_preset("gpt3-175b").model, seq_length=2048, global_batch_size=1536)
    assert model_flops_per_step(job) == worked("step-flops")


def test_packed_samples_attend_to_themselves_only() -> None:
    job = workload(DENSE, mean_squared_length_fraction=0.25)
    whole = model_flops_per_token(DENSE, 2048)
    scores = 3 * 8 * attention_score_flops_per_token(DENSE, 2048)
    assert model_flops_per_step(job) == pytest.approx(2048 * 64 * (whole - 0.75 * scores))


def test_prediction_module_adds_a_layer_a_projection_and_a_head() -> None:
    with_mtp = model_flops_per_token(replace(SPARSE, mtp_num_layers=1), 2048) - model_flops_per_token(SPARSE, 2048)
    layer = layer_flops_per_token(SPARSE, 2048, moe=True)
    assert with_mtp == pytest.approx(3 * (layer + 2 * 2 * 1024 * 1024 + 2 * 1024 * 32000))


def test_deepseek_v3_agrees_with_its_active_parameters() -> None:
    model = model_preset("deepseek-v3").model
    # 6 N active (36.6 B and the MTP module's share) plus attention: 2 to 3 x 10^11 a token at 4K [deepseek-v3].
    assert model_flops_per_token(replace(model, mtp_num_layers=0), 4096) == pytest.approx(6 * 36.6e9, rel=0.2)


def test_the_convention_names_what_is_left_out() -> None:
    assert "recompute" in MFU_CONVENTION
    assert "causal" in MFU_CONVENTION
