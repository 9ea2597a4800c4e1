"""Each family's published config.json: sizes, constants, and what becomes of every key."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.huggingface.families import BY_ARCHITECTURE, FAMILIES
from app.catalogue.models.huggingface.keys import NEUTRAL, WEIGHTY
from app.catalogue.models.huggingface.reading import ImportedModel, model_from_config, model_from_config_file
from app.catalogue.models.shape import model_from_mapping, model_to_mapping
from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import LocalAttention, ModelShape, SparseAttention
from documents.errors import InputError
from tests import published_models

FIXTURES = Path(__file__).parents[5] / "fixtures" / "huggingface"
CONFIGS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*.json"))}

# Of the weights that the publishers name, and how far the configuration may be from their rounding.
SIZES = {
    "kimi-k2": (1.026e12, 1e-3),
    "glm-4-9b-hf": (9.40e9, 1e-3),
    "glm-4-32b-0414": (32.57e9, 1e-3),
    "glm-4.5": (353e9, 1e-3),  # 355 B with the MTP module
    "glm-4.6": (352_797_814_784, 0),
    "glm-4.5-air": (106.85e9, 1e-3),
    "gemma-2-9b": (9_241_705_984, 0),
    "gemma-2-27b": (27_227_128_320, 0),
    "gemma-3-1b": (999_885_952, 0),
    "gemma-3-27b": (27_009_346_304, 1e-5),
    "gpt-oss-20b": (20.91e9, 1e-3),
    "gpt-oss-120b": (116.83e9, 1e-3),
    "qwen3-next-80b-a3b": (79.7e9, 1e-3),
    "qwen1.5-moe-a2.7b": (14.3e9, 2e-3),
    "minimax-text-01": (456_089_655_296, 0),
    "minimax-m2": (228.7e9, 1e-3),
    "hunyuan-7b": (7.5e9, 1e-3),
    "hunyuan-a13b": (80.4e9, 1e-3),
    "internlm-7b": (7.32e9, 1e-3),
    "internlm2.5-7b": (7.74e9, 1e-3),
    "internlm3-8b": (8.8e9, 1e-3),
    "baichuan2-7b": (7.51e9, 1e-3),
    "baichuan2-13b": (13.9e9, 1e-3),
    "mistral-7b-v0.1": (7_241_732_096, 0),
    "openpangu-embedded-7b": (8.03e9, 1e-3),
    # Weights of the files on the hub; MiMo's 7.833 B are with the module of 0.211 B (a layer and a projection).
    "phi-3-mini-4k": (3_821_079_552, 0),
    "olmo-2-7b": (7_298_617_344, 1e-4),  # its norms over all heads are counted as those of one
    "smollm3-3b": (3_075_098_624, 0),
    "seed-oss-36b": (36_151_104_512, 0),
    "mimo-7b": (7.833e9 - 0.2108e9, 1e-3),
    "deepseek-v3.2": (671_877_929_216, 0),  # as transformers builds both
    "glm-5": (743_911_199_232, 0),
}
SOFTMAX = RouterConstants("softmax", normalize_topk=True, topk_scale=1.0, expert_bias=False)
SIGMOID = RouterConstants("sigmoid", normalize_topk=True, topk_scale=1.0, expert_bias=True)
PLAIN = ModelConstants(activation="silu", normalization="rmsnorm", norm_epsilon=1e-5, rotary_base=10_000.0)
GEMMA = dataclasses.replace(PLAIN, activation="gelu_tanh", norm_epsilon=1e-6, norm_zero_centered=True)
OSS_SCALING = RopeScaling("yarn", 32.0, 4096, beta_fast=32.0, beta_slow=1.0, truncate=False)
KIMI_SCALING = RopeScaling("yarn", 32.0, 4096, beta_fast=1.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
CONSTANTS: dict[str, tuple[ModelConstants, dict[str, Any]]] = {
    "kimi-k2": (
        PLAIN,
        {
            "model_type": "kimi_k2",
            "norm_epsilon": 1e-6,
            "rotary_base": 50_000.0,
            "max_position_embeddings": 131_072,
            "rope_scaling": KIMI_SCALING,
            "router": dataclasses.replace(SIGMOID, topk_scale=2.827),
        },
    ),
    "glm-4-9b-hf": (
        PLAIN,
        {
            "model_type": "glm",
            "norm_epsilon": 1.5625e-7,
            "rotary_fraction": 0.5,
            "rotary_interleaved": True,
            "max_position_embeddings": 8192,
        },
    ),
    "glm-4-32b-0414": (
        PLAIN,
        {"model_type": "glm4", "rotary_fraction": 0.5, "rotary_interleaved": True, "max_position_embeddings": 32_768},
    ),
    "glm-4.5": (
        PLAIN,
        {
            "model_type": "glm4_moe",
            "rotary_base": 1e6,
            "rotary_fraction": 0.5,
            "max_position_embeddings": 131_072,
            "router": dataclasses.replace(SIGMOID, topk_scale=2.5),
        },
    ),
    "gemma-2-9b": (
        GEMMA,
        {
            "model_type": "gemma2",
            "max_position_embeddings": 8192,
            "attention_scale": 1 / 16,
            "attention_softcap": 50.0,
            "logit_softcap": 30.0,
            "embedding_scale": math.sqrt(3584),
        },
    ),
    "gemma-3-27b": (
        GEMMA,
        {
            "model_type": "gemma3_text",
            "rotary_base": 1e6,
            "local_rotary_base": 1e4,
            "rope_scaling": RopeScaling("linear", 8.0),
            "max_position_embeddings": 131_072,
            "attention_scale": 168**-0.5,
            "embedding_scale": math.sqrt(5376),
        },
    ),
    "gpt-oss-120b": (
        PLAIN,
        {
            "model_type": "gpt_oss",
            "activation": "quick_gelu",
            "activation_clamp": 7.0,
            "glu_linear_offset": 1.0,
            "rotary_base": 150_000.0,
            "rope_scaling": OSS_SCALING,
            "max_position_embeddings": 131_072,
            "attention_output_bias": True,
            "attention_sinks": True,
            "router": SOFTMAX,
        },
    ),
    "qwen3-next-80b-a3b": (
        PLAIN,
        {
            "model_type": "qwen3_next",
            "norm_epsilon": 1e-6,
            "norm_zero_centered": True,
            "rotary_base": 1e7,
            "rotary_fraction": 0.25,
            "max_position_embeddings": 262_144,
            "router": dataclasses.replace(SOFTMAX, shared_expert_gate=True),
        },
    ),
    "qwen1.5-moe-a2.7b": (
        PLAIN,
        {
            "model_type": "qwen2_moe",
            "norm_epsilon": 1e-6,
            "rotary_base": 1e6,
            "max_position_embeddings": 8192,
            "router": dataclasses.replace(SOFTMAX, normalize_topk=False, shared_expert_gate=True),
        },
    ),
    "minimax-text-01": (
        PLAIN,
        {
            "model_type": "minimax_text_01",
            "rotary_base": 1e7,
            "rotary_fraction": 0.5,
            "max_position_embeddings": 10_240_000,
            "post_norm_residual": 3.5565588200778455,
            "router": SOFTMAX,
        },
    ),
    "minimax-m2": (
        PLAIN,
        {
            "model_type": "minimax_m2",
            "norm_epsilon": 1e-6,
            "rotary_base": 5e6,
            "rotary_fraction": 0.5,
            "max_position_embeddings": 196_608,
            "qk_norm_over_heads": True,
            "router": SIGMOID,
        },
    ),
    "hunyuan-a13b": (
        PLAIN,
        {
            "model_type": "hunyuan_v1_moe",
            "rotary_base": 1e4 * 1000 ** (128 / 126),
            "max_position_embeddings": 32_768,
            "router": SOFTMAX,
        },
    ),
    "glm-5": (
        PLAIN,
        {
            "model_type": "glm_moe_dsa",
            "rotary_base": 1e6,
            "max_position_embeddings": 202_752,
            "router": dataclasses.replace(SIGMOID, topk_scale=2.5),
        },
    ),
    "internlm3-8b": (PLAIN, {"model_type": "internlm3", "rotary_base": 5e7, "max_position_embeddings": 32_768}),
    "internlm-7b": (
        PLAIN,
        {
            "model_type": "internlm",
            "norm_epsilon": 1e-6,
            "max_position_embeddings": 2048,
            "attention_output_bias": True,
        },
    ),
    "baichuan2-13b": (
        PLAIN,
        {"model_type": "baichuan", "norm_epsilon": 1e-6, "rotary_base": None, "max_position_embeddings": 4096},
    ),
    "mistral-7b-v0.1": (PLAIN, {"model_type": "mistral", "max_position_embeddings": 32_768}),
    "openpangu-embedded-7b": (
        PLAIN,
        {
            "model_type": "PanguEmbedded",
            "rotary_base": 1.6e7,
            "max_position_embeddings": 32_768,
            "attention_output_bias": True,
        },
    ),
}
NEXT = LocalAttention("linear", 4, 0, 16, 32, 128, 128, 4)
LIGHTNING = LocalAttention("linear", 8, 0, 64, 64, 128, 128)
LOCAL = {
    "gemma-2-9b": LocalAttention("window", 2, 4096),
    "gemma-2-27b": LocalAttention("window", 2, 4096),
    "gemma-3-1b": LocalAttention("window", 6, 512),
    "gemma-3-27b": LocalAttention("window", 6, 1024),
    "gpt-oss-20b": LocalAttention("window", 2, 128),
    "gpt-oss-120b": LocalAttention("window", 2, 128),
    "phi-3-mini-4k": LocalAttention("window", window=2047),
    "mistral-7b-v0.1": LocalAttention("window", 0, 4096),
    "qwen3-next-80b-a3b": NEXT,
    "minimax-text-01": LIGHTNING,
}


def imported(name: str, **changes: object) -> ImportedModel:
    config = {**CONFIGS[name], **changes}
    return model_from_config({key: value for key, value in config.items() if value is not ...}, name=name)


def model(name: str, **changes: object) -> ModelShape:
    return imported(name, **changes).model


def refused(name: str, **changes: object) -> str:
    with pytest.raises(InputError) as caught:
        imported(name, **changes)
    return str(caught.value).removeprefix("config.json: ")


@pytest.mark.parametrize("name", SIZES)
def test_a_published_config_has_the_published_size(name: str) -> None:
    total, rel = SIZES[name]
    assert num_parameters(model(name)).total == pytest.approx(total, rel=rel, abs=0)


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_published_config_states_its_constants(name: str) -> None:
    plain, changes = CONSTANTS[name]
    assert model(name).constants == dataclasses.replace(plain, **changes)


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("nemotron")])  # test_single_blocks.py
def test_layers_that_do_not_look_at_everything(name: str) -> None:
    assert model(name).local_attention == LOCAL.get(name)


@pytest.mark.parametrize(
    "shape",
    [
        published_models.GEMMA_2_9B,
        published_models.GEMMA_2_27B,
        published_models.GEMMA_3_27B,
        published_models.GPT_OSS_20B,
        published_models.GPT_OSS_120B,
        published_models.MINIMAX_TEXT_01,
        published_models.KIMI_K2,
        published_models.GLM_4_5,
    ],
    ids=lambda shape: shape.name,
)
def test_shapes_are_those_that_prices_are_held_to(shape: ModelShape) -> None:
    found = dataclasses.replace(model(shape.name), constants=shape.constants)
    assert dataclasses.asdict(found) == dataclasses.asdict(shape)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_import_survives_a_job_document(name: str) -> None:
    shape = model(name)
    assert model_from_mapping(json.loads(json.dumps(model_to_mapping(shape)))) == shape


def test_every_family_has_a_published_config() -> None:
    nested = [config["text_config"]["model_type"] for config in CONFIGS.values() if "text_config" in config]
    types = {config["model_type"] for config in CONFIGS.values()} | set(nested)
    assert set(FAMILIES) - types == {"minimax", "minimax_m1"}  # names of newer files for minimax_text_01
    assert model("minimax-text-01", model_type="minimax_m1").moe == model("minimax-text-01").moe
    newer = {"attn_type_list": ..., "layer_types": (["linear_attention"] * 7 + ["full_attention"]) * 10}
    assert model("minimax-text-01", model_type="minimax", **newer).local_attention == LIGHTNING


@pytest.mark.parametrize("name", CONFIGS)
def test_every_key_of_a_published_config_is_read_or_known_to_say_nothing(name: str) -> None:
    whole = CONFIGS[name]
    config = whole.get("text_config", whole)
    family = FAMILIES[config["model_type"]]
    assert set(config) - family.keys - NEUTRAL <= WEIGHTY  # weightless here, or the import below would refuse them
    assert not any(note.startswith("not read") for note in imported(name).notes)


def test_no_key_is_both_weighty_and_neutral() -> None:
    assert not NEUTRAL & WEIGHTY


@pytest.mark.parametrize("key", sorted(WEIGHTY))
def test_a_weighty_key_is_read_or_refused_and_never_dropped(key: str) -> None:
    for name in ("llama-2-7b", "mixtral-8x7b", "deepseek-v3", "minimax-m2"):
        if key not in FAMILIES[CONFIGS[name]["model_type"]].keys:
            assert refused(name, **{key: 77}).startswith(f"{key}: 77 is not modelled for {CONFIGS[name]['model_type']}")


def test_unknown_keys_are_named() -> None:
    assert imported("qwen3-8b", surprise=1, another="x", nothing=None).notes == ("not read: surprise, another.",)
    many = imported("qwen3-8b", **{f"key_{index}": index for index in range(12)}).notes
    assert many == ("not read: key_0, key_1, key_2, key_3, key_4, key_5, key_6, key_7 and 4 more.",)
    assert "\n" not in imported("qwen3-8b", **{"a\nb": 1}).notes[0]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("index_topk_freq", 4, "index_topk_freq: 4 is not allowed; layers that reuse the tokens that another layer chose"),
        ("indexer_types", ["full", "shared"], "indexer_types\\[1\\]: 'shared' is not allowed; layers that reuse"),
        ("index_topk_pattern", ["F", "S"], "index_topk_pattern\\[1\\]: 'S' is not allowed; layers that reuse"),
        ("index_share_for_mtp_iteration", True, "index_share_for_mtp_iteration: true is not modelled"),
        ("mlp_layer_types", ["sparse"], "mlp_layer_types\\[0\\]: 'sparse' is not allowed; first_k_dense_replace"),
        ("q_lora_rank", None, "sparse_attention: needs mla with a q_lora_rank above 0"),
        ("index_head_dim", 32, "sparse_attention.index_head_dim: 32 is not allowed; give at least the 64 rotated"),
    ],
)
def test_an_indexer_that_is_not_modelled_is_refused(key: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model_from_config({**CONFIGS["glm-5"], key: value})


def test_an_indexer_is_read() -> None:
    assert model_from_config(CONFIGS["deepseek-v3.2"]).model.sparse_attention == SparseAttention(64, 128, 2048)
    assert model_from_config(CONFIGS["glm-5"]).model.sparse_attention == SparseAttention(32, 128, 2048)
    spelled = {"index_topk_freq": 1, "indexer_types": ["full"] * 78, "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 75}
    plain, same = (model_from_config(CONFIGS["glm-5"] | more).model for more in ({}, spelled))
    assert plain == same


def test_an_unknown_type_is_read_by_its_architecture() -> None:
    found = imported("kimi-k2", model_type="kimi_k9")
    assert found.notes == (
        "model_type 'kimi_k9' is not known; the file is read as deepseek_v3, by its architecture DeepseekV3ForCausalLM.",
    )
    assert found.model.moe == model("kimi-k2").moe
    assert found.model.constants.model_type == "deepseek_v3"
    assert set(BY_ARCHITECTURE.values()) == set(FAMILIES)
    assert "'kimi_k9' is not supported (nearest: kimi_k2)" in refused("kimi-k2", model_type="kimi_k9", architectures=["Odd"])
    assert "'kimi_k9' is not supported" in refused("kimi-k2", model_type="kimi_k9", architectures="DeepseekV3ForCausalLM")


def test_the_text_model_of_a_model_of_several_inputs_is_read() -> None:
    whole = {"model_type": "kimi_k25", "vision_config": {}, "tie_word_embeddings": False, "text_config": CONFIGS["kimi-k2"]}
    found = model_from_config(whole, name="kimi-k2")
    assert found.model == model("kimi-k2")
    assert found.notes == ("only the text model of 'kimi_k25' is read; its other parts are not priced.",)
    with pytest.raises(InputError, match="model_type: 'kimi_k25' is not supported"):
        model_from_config({"model_type": "kimi_k25", "text_config": {"hidden_size": 64}})


def test_a_file_is_named_after_itself() -> None:
    assert model_from_config_file(FIXTURES / "gpt-oss-20b.json").model.name == "gpt-oss-20b"


def test_windows_of_mistral_and_mixtral() -> None:
    assert model("mistral-7b-v0.1", sliding_window=None).local_attention is None
    assert model("mistral-7b-v0.1", sliding_window=...).local_attention is None
    assert model("mixtral-8x7b", sliding_window=4096).local_attention == LocalAttention("window", 0, 4096)
    types = ["sliding_attention", "sliding_attention", "full_attention"] * 10 + ["sliding_attention"] * 2
    assert model("mistral-7b-v0.1", layer_types=types).local_attention == LocalAttention("window", 3, 4096)
    assert "layer_types: it has 3 entries; give one for each of the 32 layers." in refused(
        "mistral-7b-v0.1", layer_types=types[:3]
    )
    assert "sliding_window: missing; give an integer." in refused("mistral-7b-v0.1", layer_types=types, sliding_window=None)


def test_windows_of_qwen_start_behind_some_layers() -> None:
    assert model("qwen2.5-72b", use_sliding_window=True, max_window_layers=0).local_attention == LocalAttention(
        "window", 0, 131_072
    )
    bare = {"use_sliding_window": True, "max_window_layers": 0, "sliding_window": ...}
    assert model("qwen2.5-72b", **bare).local_attention == LocalAttention("window", 0, 4096)
    assert "max_window_layers: it puts full attention" in refused("qwen2.5-72b", use_sliding_window=True, max_window_layers=70)


def test_layer_types_and_periods_say_the_same() -> None:
    for name, every in (("gemma-2-9b", 2), ("gemma-3-1b", 6), ("gpt-oss-20b", 2)):
        number = CONFIGS[name]["num_hidden_layers"]
        types = ["full_attention" if (index + 1) % every == 0 else "sliding_attention" for index in range(number)]
        assert model(name, layer_types=types) == model(name, layer_types=...) == model(name)
    hybrid = ["full_attention" if (index + 1) % 4 == 0 else "linear_attention" for index in range(48)]
    assert model("qwen3-next-80b-a3b", layer_types=hybrid) == model("qwen3-next-80b-a3b")
    assert "layer_types[0]: 'sliding_attention' is not allowed" in refused(
        "qwen3-next-80b-a3b", layer_types=["sliding_attention"] * 48
    )


def test_what_no_formula_has_is_refused_with_one_sentence() -> None:
    for name, changes, sentence in (
        ("gpt-oss-20b", {"swiglu_alpha": 2.0}, "swiglu_alpha: 2.0 is not allowed; give 1.702."),
        ("gpt-oss-20b", {"experts_per_token": 8}, "experts_per_token: 8 is not allowed; num_experts_per_tok says 4."),
        ("gemma-2-9b", {"use_bidirectional_attention": True}, "use_bidirectional_attention: true is not allowed"),
        ("minimax-text-01", {"shared_intermediate_size": 512}, "shared_intermediate_size: true is not allowed"),
        ("minimax-text-01", {"layernorm_mlp_alpha": 2.0}, "layernorm_mlp_alpha: 2.0 is not allowed; all blocks have one"),
        ("minimax-text-01", {"layernorm_mlp_beta": 2.0}, "layernorm_mlp_beta: 2.0 is not allowed"),
        ("minimax-text-01", {"attn_type_list": ...}, "layer_types: missing; give linear_attention or full_attention"),
        ("minimax-m2", {"attn_type_list": [0, 1]}, "attn_type_list: [0, 1] is not allowed"),
        ("minimax-m2", {"rotary_dim": 256}, "rotary_dim: 256 is not allowed; give at most the 128 channels of a head."),
        ("hunyuan-a13b", {"use_cla": True}, "use_cla: true is not allowed; keys that layers share are not modelled"),
        ("hunyuan-a13b", {"moe_topk": [8, 4]}, "moe_topk: [8, 4] is not allowed; give one number for all layers."),
        ("hunyuan-a13b", {"moe_layer_num_skipped": 32}, "moe_layer_num_skipped: 32 is not allowed"),
        ("glm4-9b", {"add_bias_linear": True}, "add_bias_linear: true is not allowed; biases in the MLP are not modelled."),
        ("glm4-9b", {"post_layer_norm": False}, "post_layer_norm: false is not allowed"),
        ("deepseek-v3", {"rope_interleave": False}, "rope_interleave: false is not allowed"),
        ("baichuan2-13b", {"num_key_value_heads": 8}, "num_key_value_heads: 8 is not allowed; every head has its own keys"),
        ("baichuan2-13b", {"model_max_length": ...}, "model_max_length: missing; give an integer, or max_position"),
        ("internlm3-8b", {"bias": True}, "bias: true is not allowed; biases in the MLP are not modelled."),
        ("mixtral-8x7b", {"rms_norm_eps": -1}, "rms_norm_eps: -1 is not allowed; give a number above 0 and at most 1."),
        ("pangu-ultra-moe-718b", {"num_key_value_heads": 8}, "num_key_value_heads: 8 is not allowed; latent attention"),
    ):
        found = refused(name, **changes)
        assert found.startswith(sentence), found
        assert "\n" not in found


def test_biases_of_attention() -> None:
    def biases(name: str, **changes: object) -> tuple[bool, bool]:
        shape = model(name, **changes)
        return shape.attention_bias, shape.constants.attention_output_bias

    assert biases("llama-2-7b", attention_bias=True) == (True, True)
    assert biases("qwen2.5-72b") == biases("glm-4.5") == biases("glm4-9b") == (True, False)
    assert biases("gpt-oss-20b") == biases("pangu-pro-moe-72b") == (True, True)
    assert biases("internlm-7b") == (True, True)
    assert biases("internlm-7b", bias=False) == (False, False)
    assert biases("internlm3-8b", qkv_bias=True) == (True, False)
    assert biases("baichuan2-7b") == (False, False)


def test_positions_of_baichuan_by_size() -> None:
    small, large = model("baichuan2-7b"), model("baichuan2-13b")
    assert (small.alibi, small.constants.rotary_base) == (False, 10_000.0)
    assert (large.alibi, large.constants.rotary_base) == (True, None)


def test_shared_experts_and_gates() -> None:
    for name, number, width in (("qwen1.5-moe-a2.7b", 4, 5632), ("qwen3-next-80b-a3b", 1, 512), ("hunyuan-a13b", 1, 3072)):
        moe = model(name).moe
        assert moe is not None
        assert (moe.num_shared_experts, moe.shared_expert_ffn_hidden_size) == (number, width)
    assert model("qwen3-next-80b-a3b").attention_output_gate
    assert model("qwen1.5-moe-a2.7b", mlp_only_layers=list(range(24))).constants.router == RouterConstants()
    odd = model("qwen1.5-moe-a2.7b", shared_expert_intermediate_size=1000).moe
    assert odd is not None
    assert (odd.num_shared_experts, odd.shared_expert_ffn_hidden_size) == (1, 1000)


def test_kin_of_llama_say_what_they_do_differently() -> None:
    assert model("phi-3-mini-4k").local_attention == LocalAttention("window", window=2047)
    assert model("phi-3-mini-4k", partial_rotary_factor=0.75).constants.rotary_fraction == 0.75
    assert "longrope" in refused("phi-3-mini-4k", rope_scaling={"type": "longrope", "factor": 4.0})
    assert model("olmo-2-7b").constants.qk_norm_over_heads
    assert any("norms stand behind" in note for note in imported("olmo-2-7b").notes)
    assert any("9 layers have no positions" in note for note in imported("smollm3-3b").notes)
    assert any("9 layers have no positions" in note for note in imported("smollm3-3b", no_rope_layers=...).notes)
    assert "give one for each of 36 layers" in refused("smollm3-3b", no_rope_layers=[1, 0])
    assert model("smollm3-3b").tied_embeddings
    seed = model("seed-oss-36b")
    assert (seed.attention_bias, seed.constants.attention_output_bias, seed.kv_channels) == (True, False, 128)
    assert (model("mimo-7b").mtp_num_layers, model("mimo-7b").attention_bias) == (1, True)


def test_the_documentation_lists_every_family() -> None:
    section = (Path(__file__).parents[6] / "docs" / "models.md").read_text().split("## Import of a `config.json`\n")[1]
    table = section.split("|---|---|---|\n")[1].split("\n\n")[0]
    listed = {name for line in table.splitlines() for name in line.split("|")[1].replace("`", "").replace(",", "").split()}
    assert listed == set(FAMILIES)
