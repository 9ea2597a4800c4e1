"""Parameters of published models with windows, recurrences, gates and biases: to the last one, or as published."""

from dataclasses import replace

import pytest

from cost_models.shapes.parameters import layer_parameters, num_parameters
from cost_models.shapes.workload import LayerKind, ModelShape
from tests.published_models import (
    DEEPSEEK_V3_2,
    GEMMA_2_9B,
    GEMMA_2_27B,
    GEMMA_3_12B,
    GEMMA_3_27B,
    GLM_4_5,
    GLM_5,
    GPT_OSS_20B,
    GPT_OSS_120B,
    KIMI_K2,
    MINIMAX_TEXT_01,
    MISTRAL_7B,
    QWEN3_NEXT_80B,
)
from tests.worked_examples import worked


@pytest.mark.parametrize(
    ("model", "total"),
    [
        (MISTRAL_7B, 7_241_732_096),
        (GEMMA_2_9B, 9_241_705_984),
        (GEMMA_2_27B, 27_227_128_320),
        (GEMMA_3_12B, 262208 * 3840 + 48 * (3840 * 256 * 48 + 3 * 3840 * 15360 + 4 * 3840 + 2 * 256) + 3840),
        (MINIMAX_TEXT_01, 456_089_655_296),
        (DEEPSEEK_V3_2, 671_877_929_216),  # built by transformers 5, as is GLM-5
        (GLM_5, 743_911_199_232),
    ],
    ids=lambda value: value.name if isinstance(value, ModelShape) else "",
)
def test_all_parameters_of_a_published_checkpoint(model: ModelShape, total: int) -> None:
    assert num_parameters(model).total == total


@pytest.mark.parametrize(
    ("model", "total", "active"),
    [
        (GEMMA_3_12B, 10_759e6 + 262208 * 3840, None),  # the report: 10,759 M and 25,600 M without the embedding
        (GEMMA_3_27B, 25_600e6 + 262208 * 5376, None),
        (GPT_OSS_20B, 20.91e9, 3.61e9),  # the model card: 20.91 B and 3.61 B, 116.83 B and 5.13 B
        (GPT_OSS_120B, 116.83e9, 5.13e9),
        (QWEN3_NEXT_80B, 79.7e9, 3.6e9),  # published as 80 B and 3 B: with the MTP module, and without the head
        (MINIMAX_TEXT_01, 456e9, 45.9e9 + 200064 * 6144),  # active without the head
        (GLM_4_5, 353e9, 32e9 + 151552 * 5120),  # 355 B with the MTP module, active without the head
        (KIMI_K2, 1.026e12, 32.0e9),  # 1.04 T and 32.6 B: with both ends
    ],
    ids=lambda value: value.name if isinstance(value, ModelShape) else "",
)
def test_published_sizes(model: ModelShape, total: float, active: float | None) -> None:
    counts = num_parameters(model)
    assert counts.total == pytest.approx(total, rel=2e-3)
    if active is not None:
        assert counts.active == pytest.approx(active, rel=2e-2)


def test_each_nth_layer_looks_at_everything() -> None:
    kinds = GEMMA_3_12B.kinds_of_layers()
    assert [index for index, kind in enumerate(kinds) if not kind.local] == list(range(5, 48, 6))
    assert set(MISTRAL_7B.kinds_of_layers()) == {LayerKind(local=True)}


def test_an_indexer_is_whole_on_every_rank() -> None:
    parts, dense = (layer_parameters(m, moe=True) for m in (DEEPSEEK_V3_2, replace(DEEPSEEK_V3_2, sparse_attention=None)))
    assert parts.attention_replicated - dense.attention_replicated == worked("indexer-parameters")
    assert parts.attention_sharded == dense.attention_sharded


def test_worked_recurrences() -> None:
    delta_rule = layer_parameters(QWEN3_NEXT_80B, moe=True, local=True)
    assert delta_rule.attention_sharded + delta_rule.attention_replicated == worked("delta-rule-parameters")
    assert delta_rule.attention_replicated == 128  # the norm of a head
    lightning = layer_parameters(MINIMAX_TEXT_01, moe=True, local=True)
    assert lightning.attention_sharded + lightning.attention_replicated == worked("lightning-parameters")


def test_full_layers_between_recurrences_keep_attention() -> None:
    full = layer_parameters(QWEN3_NEXT_80B, moe=True)
    assert full.attention_sharded == 2048 * 256 * (3 * 16 + 2 * 2)  # queries, their gate and the output; keys and values
    assert full.attention_replicated == 2 * 256
    ungated = layer_parameters(replace(QWEN3_NEXT_80B, attention_output_gate=False), moe=True)
    assert full.attention_sharded - ungated.attention_sharded == 2048 * 16 * 256


def test_biases_sinks_and_gates_count() -> None:
    parts = layer_parameters(GPT_OSS_20B, moe=True)
    assert parts.attention_sharded == 2880 * 64 * (2 * 64 + 2 * 8) + (64 + 2 * 8) * 64 + 64  # biases of q, k, v; sinks
    assert parts.attention_replicated == 2880  # the bias of the output
    assert parts.router == (2880 + 1) * 32
    assert parts.experts == (3 * 2880 * 2880 + 2 * 2880 + 2880) * 32
    assert layer_parameters(QWEN3_NEXT_80B, moe=True).router == 2048 * 512 + 2048  # and the shared expert's gate
