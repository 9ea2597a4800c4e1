"""Layers of one block in a config.json: their order in either form, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.huggingface.reading import model_from_config
from cost_models.shapes.workload import LocalAttention, ModelShape
from documents.errors import InputError

CONFIG = json.loads((Path(__file__).parents[5] / "fixtures" / "huggingface" / "nemotron-3-nano-30b-a3b.json").read_text())
NANO_PATTERN = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"


def model(**changes: object) -> ModelShape:
    config = {**CONFIG, **changes}
    return model_from_config({key: value for key, value in config.items() if value is not ...}).model


def test_layers_of_one_block_have_their_pattern_in_either_form() -> None:
    nano = model()
    assert nano.hybrid_layer_pattern == NANO_PATTERN
    blocks = {"M": "linear_attention", "*": "full_attention", "E": "moe"}
    older = {"M": "mamba", "*": "attention", "E": "moe"}
    for names in (blocks, older):
        listed = [names[symbol] for symbol in NANO_PATTERN]
        assert model(hybrid_override_pattern=..., layers_block_type=listed) == nano
    assert (nano.no_positions, nano.gated_linear_unit) == (True, False)
    assert nano.local_attention == LocalAttention("state_space", 0, 0, 8, 64, 128, 64, 4, 128)
    assert nano.moe is not None
    assert (nano.moe.num_experts, nano.moe.top_k, nano.moe.shared_expert_ffn_hidden_size) == (128, 6, 3712)


def test_a_file_without_a_number_of_layers_has_those_that_it_lists() -> None:
    blocks = ["linear_attention", "mlp", "full_attention", "moe"]
    found = model(num_hidden_layers=..., hybrid_override_pattern=..., layers_block_type=blocks)
    assert (found.num_layers, found.hybrid_layer_pattern) == (4, "M-*E")
    assert model(num_hidden_layers=...) == model()


def test_older_names_of_a_state_space_are_read_and_go_first() -> None:
    local = model(mamba_n_groups=4, mamba_d_conv=3, mamba_chunk_size=256, mamba_conv_bias=True).local_attention
    assert local is not None
    assert (local.num_key_heads, local.conv_kernel, local.chunk_size) == (4, 3, 256)


def test_heads_have_128_channels_where_the_file_states_none() -> None:
    assert model(head_dim=..., attention_head_dim=..., hidden_size=2048).kv_channels == 128


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hybrid_override_pattern": ...}, "hybrid_override_pattern: missing; give one symbol for each layer"),
        ({"hybrid_override_pattern": "M" * 51 + "X"}, "hybrid_layer_pattern[51]: 'X' is not allowed; give one of M * - E"),
        ({"hybrid_override_pattern": "ME"}, "hybrid_layer_pattern: it has 2 symbols; give one for each of the 52 layers."),
        ({"moe_latent_size": 1024}, "moe_latent_size: 1024 is not allowed; experts that work on latents, as in Nemotron 3 Super"),
        ({"moe_latent_size": 1024, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E"}, "experts that work on"),
        ({"num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"]}, "multi-token prediction is not priced"),
        ({"num_nextn_predict_layers": 1}, "num_nextn_predict_layers: 1 is not allowed; multi-token prediction is not priced"),
        ({"residual_in_fp32": True}, "residual_in_fp32: true is not allowed"),
        ({"use_conv_bias": False}, "use_conv_bias: false is not allowed"),
        ({"mamba_conv_bias": False}, "mamba_conv_bias: false is not allowed"),
    ],
)
def test_hybrids_that_are_not_priced_are_refused_by_name(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model(**changes)
    assert sentence in str(caught.value)
