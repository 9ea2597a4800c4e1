"""Parameter counts by hand and against published sizes."""

from dataclasses import replace

import pytest

from app.catalogue.models.presets import model_preset
from cost_models.shapes.parameters import layer_parameters, mtp_parameters, num_parameters
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE


def test_grouped_query_attention() -> None:
    model = model_preset("llama-3.1-8b").model  # h 4096, d 128, 32 heads, 8 groups
    assert layer_parameters(model, moe=False).attention_sharded == worked("gqa-attention-parameters")


def test_head_dim_may_differ_from_hidden_over_heads() -> None:
    wide = replace(DENSE, kv_channels=256)  # h d (2 H + 2 Hk) = 1024 x 256 x 32
    assert layer_parameters(wide, moe=False).attention_sharded == 1024 * 256 * 32


def test_latent_attention() -> None:
    parts = layer_parameters(model_preset("deepseek-v3").model, moe=True)
    assert parts.attention_sharded + parts.attention_replicated == worked("mla-attention-parameters")
    # Down-projections and the norms on their outputs stay whole on every tensor-parallel rank.
    assert parts.attention_replicated == 1536 * (7168 + 1) + 512 * (7168 + 1) + 7168 * 64


def test_latent_attention_without_compressed_queries() -> None:
    assert LATENT.mla is not None
    parts = layer_parameters(replace(LATENT, mla=replace(LATENT.mla, q_lora_rank=0)), moe=True)
    assert parts.attention_sharded == 1024 * 8 * 96 + 128 * 8 * (64 + 64) + 8 * 64 * 1024
    assert parts.attention_replicated == 128 * 1025 + 1024 * 32


def test_mlp_has_a_third_matrix_when_gated() -> None:
    assert layer_parameters(DENSE, moe=False).mlp == 3 * 1024 * 4096
    assert layer_parameters(replace(DENSE, gated_linear_unit=False), moe=False).mlp == 2 * 1024 * 4096


def test_experts_router_and_shared_expert() -> None:
    parts = layer_parameters(SPARSE, moe=True)
    assert (parts.mlp, parts.router, parts.shared_experts) == (0, 1024 * 16, 3 * 1024 * 512)
    assert parts.experts == 3 * 1024 * 512 * 16
    assert parts.total == parts.dense + parts.experts
    assert layer_parameters(model_preset("deepseek-v3").model, moe=True).experts == worked("expert-parameters")


@pytest.mark.parametrize(("changes", "norms"), [({}, 2), ({"sandwich_norm": True}, 4)])
def test_norms_of_a_layer(changes: dict[str, bool], norms: int) -> None:
    assert layer_parameters(replace(DENSE, **changes), moe=False).norms == norms * 1024


def test_norms_and_biases_of_attention() -> None:
    parts = layer_parameters(replace(DENSE, qk_layernorm=True, attention_bias=True), moe=False)
    assert parts.attention_replicated == 2 * 128
    assert parts.attention_sharded == 1024 * 128 * 32 + (8 + 2 * 8) * 128


def test_whole_model() -> None:
    assert num_parameters(model_preset("llama-2-7b").model).total == worked("model-parameters")


def test_tied_embeddings_count_once() -> None:
    free, tied = num_parameters(DENSE), num_parameters(replace(DENSE, tied_embeddings=True))
    assert free.total - tied.total == free.head == free.embedding == 32000 * 1024
    assert tied.head == 0
    assert tied.active == free.active


@pytest.mark.parametrize(
    ("name", "total", "active", "mtp"),
    [
        ("deepseek-v3", 671.0e9, 36.6e9, 11.6e9),  # published 671 B; with the input embedding 37.6 B active
        ("pangu-ultra-moe-718b", 719e9, 39.2e9, None),  # published 718 B and 39 B
        ("llama-3.1-405b", 405.9e9, None, None),
        ("megatron-1t", 1008.0e9, None, None),
    ],
)
def test_published_sizes(name: str, total: float, active: float | None, mtp: float | None) -> None:
    counts = num_parameters(model_preset(name).model)
    assert counts.total == pytest.approx(total, rel=2e-3)
    assert active is None or counts.active == pytest.approx(active, rel=3e-3)
    assert mtp is None or counts.mtp == pytest.approx(mtp, rel=3e-3)


def test_prediction_module_is_a_layer_and_a_projection() -> None:
    layer = layer_parameters(SPARSE, moe=True).total
    assert mtp_parameters(SPARSE) == layer + 2 * 1024 * 1024 + 3 * 1024
    assert num_parameters(replace(SPARSE, mtp_num_layers=2)).mtp == 2 * mtp_parameters(SPARSE)
