"""Hugging Face config files: real ones give the presets, bad ones a sentence."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalogue.models.huggingface import reading
from app.catalogue.models.huggingface.reading import LIMITS
from app.catalogue.models.presets import model_preset, names
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError

FIXTURES = Path(__file__).parents[5] / "fixtures" / "huggingface"
CONFIGS = {path.stem: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*.json"))}


def changed(name: str, **changes: object) -> dict[str, object]:
    """The fixture with some fields replaced; ``...`` removes one."""
    merged = {**CONFIGS[name], **changes}
    return {key: value for key, value in merged.items() if value is not ...}


def model_from_config(config: object) -> ModelShape:
    return reading.model_from_config(config).model


def model_from_config_file(path: Path) -> ModelShape:
    return reading.model_from_config_file(path).model


def model_or_sentence(config: object) -> ModelShape | str:
    try:
        return model_from_config(config)
    except InputError as error:
        return str(error)


def regular_patterns(num_layers: int) -> set[tuple[bool, ...]]:
    """Every order of dense and MoE layers that a ``MoeShape`` can say, and the dense one."""
    model = model_preset("mixtral-8x7b").model
    assert model.moe is not None
    patterns = {(False,) * num_layers}
    for first, frequency in itertools.product(range(num_layers), range(1, num_layers + 1)):
        moe = dataclasses.replace(model.moe, num_leading_dense_layers=first, moe_layer_freq=frequency)
        patterns.add(dataclasses.replace(model, num_layers=num_layers, moe=moe).moe_layers())
    return patterns


# Those that were never published as a config.json, and those of a type that is not read.
PAPERS = {"gpt3-175b", "megatron-22b", "megatron-530b", "megatron-1t", "pangu-ultra-135b"}
PAPERS |= {"ling-mini-2.0", "ling-flash-2.0", "ling-1t"}


@pytest.mark.parametrize("name", sorted(set(names()) - PAPERS))
def test_a_real_config_gives_the_preset_with_its_constants(name: str) -> None:
    model = model_from_config_file(FIXTURES / f"{name}.json")
    assert dataclasses.asdict(model) == dataclasses.asdict(model_preset(name).model)


def test_the_model_is_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text("\ufeff" + json.dumps(CONFIGS["qwen3-8b"]), encoding="utf-8")
    assert model_from_config_file(folder / "config.json").name == "Qwen3-8B"
    assert model_from_config(CONFIGS["qwen3-8b"]).name == "qwen3"


def test_key_value_heads_and_head_dim_follow_the_library() -> None:
    llama = model_from_config(changed("llama-3.1-70b", num_key_value_heads=..., head_dim=...))
    assert (llama.num_query_groups, llama.kv_channels) == (64, 128)
    assert model_from_config(changed("qwen2.5-72b", num_key_value_heads=None)).num_query_groups == 64
    assert model_from_config(changed("qwen3-8b", head_dim=..., hidden_size=5120)).kv_channels == 128
    assert model_from_config(changed("llama-3.1-70b", head_dim=96)).kv_channels == 96


def test_biases_and_ties_are_read() -> None:
    assert model_from_config(CONFIGS["qwen2.5-72b"]).attention_bias
    assert model_from_config(changed("qwen3-8b", attention_bias=True)).attention_bias
    assert model_from_config(changed("llama-2-7b", tie_word_embeddings=True)).tied_embeddings
    assert not model_from_config(changed("llama-2-7b", tie_word_embeddings=...)).tied_embeddings


def test_qwen3_moe_layers() -> None:
    def moe_layers(**changes: object) -> tuple[bool, ...]:
        return model_from_config(changed("qwen3-235b-a22b", num_hidden_layers=6, **changes)).moe_layers()

    assert moe_layers(mlp_only_layers=[0, 1]) == (False, False, True, True, True, True)
    assert moe_layers(decoder_sparse_step=2) == (False, True, False, True, False, True)
    assert moe_layers(decoder_sparse_step=3) == (False, False, True, False, False, True)
    assert moe_layers(decoder_sparse_step=2, mlp_only_layers=[1]) == (False, False, False, True, False, True)
    assert moe_layers(mlp_only_layers=[0, 1, 2, 3, 4, 5]) == (False,) * 6
    assert moe_layers(num_experts=0) == (False,) * 6


def test_deepseek_layers() -> None:
    def moe_layers(**changes: object) -> tuple[bool, ...]:
        return model_from_config(changed("deepseek-v3", num_hidden_layers=6, **changes)).moe_layers()

    assert moe_layers() == (False, False, False, True, True, True)
    assert moe_layers(moe_layer_freq=2) == (False, False, False, False, True, False)
    assert moe_layers(first_k_dense_replace=1, moe_layer_freq=2) == (False, False, True, False, True, False)
    assert moe_layers(first_k_dense_replace=6) == (False,) * 6
    assert moe_layers(n_routed_experts=None) == (False,) * 6


@given(
    num_layers=st.integers(1, 16),
    step=st.integers(1, 6),
    dense=st.sets(st.integers(0, 15), max_size=4),
    leading=st.integers(0, 16),
)
def test_moe_layers_are_the_librarys_or_refused(num_layers: int, step: int, dense: set[int], leading: int) -> None:
    dense_layers = sorted(index for index in dense if index < num_layers)
    leading = min(leading, num_layers)
    qwen = changed("qwen3-235b-a22b", num_hidden_layers=num_layers, decoder_sparse_step=step, mlp_only_layers=dense_layers)
    deepseek = changed("deepseek-v3", num_hidden_layers=num_layers, moe_layer_freq=step, first_k_dense_replace=leading)
    # The conditions of modeling_qwen3_moe.py and of DeepSeek's modeling_deepseek.py.
    expected = {
        "qwen": tuple(index not in dense_layers and (index + 1) % step == 0 for index in range(num_layers)),
        "deepseek": tuple(index >= leading and index % step == 0 for index in range(num_layers)),
    }
    for name, config in (("qwen", qwen), ("deepseek", deepseek)):
        outcome = model_or_sentence(config)
        if isinstance(outcome, str):
            assert "irregular distance" in outcome
            assert expected[name] not in regular_patterns(num_layers)
        else:
            assert outcome.moe_layers() == expected[name]


def test_expert_counts_under_the_librarys_other_names() -> None:
    qwen = model_from_config(changed("qwen3-235b-a22b", num_experts=..., num_local_experts=64)).moe
    assert qwen is not None
    assert qwen.num_experts == 64
    with pytest.raises(InputError, match="num_local_experts: 64 is not allowed; num_experts says 128"):
        model_from_config(changed("qwen3-235b-a22b", num_local_experts=64))


def test_deepseek_variants() -> None:
    ungrouped = model_from_config(changed("deepseek-v3", n_group=None, topk_group=None, n_shared_experts=None)).moe
    assert ungrouped is not None
    assert (ungrouped.num_groups, ungrouped.num_shared_experts, ungrouped.shared_expert_ffn_hidden_size) == (1, 0, 0)
    assert model_from_config(changed("deepseek-v3", num_nextn_predict_layers=...)).mtp_num_layers == 0
    lite = model_from_config(CONFIGS["deepseek-v2-lite"]).mla
    assert lite is not None
    assert lite.q_lora_rank == 0


def test_windows_that_no_layer_uses_are_accepted() -> None:
    assert model_from_config(changed("qwen2.5-72b", use_sliding_window=True, max_window_layers=80))
    assert model_from_config(changed("qwen3-8b", use_sliding_window=True))  # sliding_window is null
    assert model_from_config(changed("qwen3-8b", layer_types=["full_attention"] * 36)).local_attention is None


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            changed("llama-2-7b", model_type="gpt_neox", architectures=...),
            "'gpt_neox' is not supported (nearest: gpt_oss); supported: llama, mistral",
        ),
        (changed("llama-2-7b", model_type="mixtrall", architectures=...), "'mixtrall' is not supported (nearest: mixtral)"),
        (changed("llama-2-7b", model_type=...), "config.json: model_type: missing; give text"),
        (changed("llama-2-7b", model_type=7), "config.json: model_type: 7 is not allowed; give text"),
        (changed("llama-2-7b", hidden_size=...), "config.json: hidden_size: missing; give an integer from 1 to 1,000,000."),
        (changed("llama-2-7b", vocab_size="32000"), "config.json: vocab_size: '32000' is not allowed; give an integer from 1"),
        (changed("llama-2-7b", num_hidden_layers=True), "config.json: num_hidden_layers: true is not allowed; give an integer"),
        (changed("llama-2-7b", num_attention_heads=33), "head_dim: missing; hidden_size 4096 is no multiple of the 33 attention"),
        (changed("llama-2-7b", mlp_bias=True), "config.json: mlp_bias: true is not allowed; biases in the MLP are not modelled."),
        (
            changed("llama-3.1-70b", num_key_value_heads=7),
            "num_query_groups: 7 is not allowed; give a divisor of the 64",
        ),
        (changed("qwen2.5-72b", num_key_value_heads=...), "config.json: num_key_value_heads: missing; give an integer."),
        (
            changed("qwen2.5-72b", use_sliding_window=True, max_window_layers=70),
            "max_window_layers: it puts full attention at an irregular distance; only each n-th layer may have it.",
        ),
        (changed("qwen3-8b", layer_types=["sliding_attention"]), "use_sliding_window: false is not allowed; layer_types has"),
        (
            changed("qwen3-8b", layer_types=["chunked_attention"]),
            "layer_types[0]: 'chunked_attention' is not allowed (did you",
        ),
        (changed("mixtral-8x7b", num_local_experts=...), "config.json: num_local_experts: missing; give an integer."),
        (changed("qwen3-235b-a22b", mlp_only_layers=[3]), "mlp_only_layers: it puts MoE layers at an irregular distance"),
        (
            changed("qwen3-235b-a22b", mlp_only_layers=[94]),
            "mlp_only_layers: 94 is not allowed; give layer numbers from 0 to 93",
        ),
        (changed("qwen3-235b-a22b", moe_intermediate_size=...), "config.json: moe_intermediate_size: missing; give an integer."),
        (changed("deepseek-v3", q_lora_rank=...), "config.json: q_lora_rank: missing; give an integer, or null"),
        (changed("deepseek-v3", n_group=...), "config.json: n_group: missing; give an integer, or null"),
        (changed("deepseek-v3", n_group=7), "config.json: num_groups: 7 is not allowed; give a divisor of the 256 experts."),
        (changed("deepseek-v3", num_key_value_heads=8), "num_key_value_heads: 8 is not allowed; latent attention has as many"),
        (changed("deepseek-v3", n_routed_experts=100_001), "n_routed_experts: 100001 is not allowed; give an integer from 1 to"),
        ([], "config.json: document: [] is not allowed; give a mapping with model_type."),
        (None, "config.json: document: null is not allowed; give a mapping with model_type."),
    ],
)
def test_bad_configs_get_one_sentence(config: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model_from_config(config)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "the key 'hidden_size' occurs twice"),
        (b'{"hidden_size": NaN}', "NaN is not a finite number"),
        (b"[" * 500_000, "nested deeper than 32 levels"),
        (b'{"a":' * 100_000, "nested deeper than 32 levels"),
        (b'{"hidden_size": 1' + b"0" * 5000 + b"}", "digits is too long"),
        (b" " * (LIMITS.num_bytes + 1), "larger than 1024 KiB"),
        (b'{"model_type": "llama", "hidden_size": 1e999}', "num_hidden_layers: missing"),
    ],
)
def test_hostile_files_get_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        model_from_config_file(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_gets_one_sentence(tmp_path: Path) -> None:
    for path, part in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent.json", "no such file"),
        (Path("a\nb\0c"), "cannot be read"),
    ):
        with pytest.raises(InputError, match=part) as caught:
            model_from_config_file(path)
        assert "\n" not in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-1, 300) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_config_gives_a_model_or_a_model_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CONFIGS)))
    fields = st.sampled_from([*sorted(CONFIGS[name]), "layer_types", "rope_parameters", "rope_scaling", "num_experts"])
    changes = data.draw(st.dictionaries(fields, ANYTHING | st.just(...), max_size=4))
    outcome = model_or_sentence(changed(name, **changes))
    if isinstance(outcome, str):
        assert "\n" not in outcome
    else:
        assert len(outcome.moe_layers()) == outcome.num_layers


@given(content=st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_model_error(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        model_from_config_file(path)
