"""Inline models: what is read, what is refused, and how."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalogue.models.shape import LINEAR_FIELDS, MLA_FIELDS, MODEL_FIELDS, MOE_FIELDS, model_from_mapping, model_to_mapping
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape
from documents.errors import InputError

DENSE = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "ffn_hidden_size": 256, "vocab_size": 1000}
MOE = {"num_experts": 8, "top_k": 2, "expert_ffn_hidden_size": 32}
MLA = {"q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}


def test_defaults_are_the_documented_ones() -> None:
    assert model_from_mapping(DENSE) == ModelShape(
        name="inline",
        num_layers=2,
        hidden_size=64,
        num_attention_heads=8,
        num_query_groups=8,
        kv_channels=8,
        ffn_hidden_size=256,
        vocab_size=1000,
    )


def test_moe_and_mla_defaults() -> None:
    model = model_from_mapping({**DENSE, "mla": MLA, "moe": {**MOE, "num_shared_experts": 3, "num_groups": 4}})
    assert model.mla == MlaShape(0, 16, 8, 4, 8)
    assert model.kv_channels == 12
    assert model.moe == MoeShape(8, 2, 32, 3, 96, num_groups=4, group_topk=4)


def test_local_attention_gates_and_biases_are_read_and_written_back() -> None:
    linear = {"kind": "linear", "full_attention_every": 2, "conv_kernel": 4, **dict.fromkeys(LINEAR_FIELDS, 4)}
    mapping = {**DENSE, "attention_output_gate": True, "local_attention": linear, "moe": {**MOE, "expert_biases": True}}
    model = model_from_mapping(mapping)
    assert model.local_attention == LocalAttention("linear", 2, 0, 4, 4, 4, 4, 4)
    assert model.moe is not None
    assert model.moe.expert_biases
    assert model_from_mapping(json.loads(json.dumps(model_to_mapping(model)))) == model


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"window": 0}, "local_attention.window: 0 is not allowed; local_attention of kind window needs an integer above 0."),
        ({"conv_kernel": 4}, "local_attention.conv_kernel: 4 is not allowed; local_attention of kind window has none."),
        ({"full_attention_every": 1}, "full_attention_every: 1 is not allowed; give 0 (no layer) or an integer from 2 to the 2"),
        ({"full_attention_every": 3}, "full_attention_every: 3 is not allowed; give 0 (no layer) or an integer from 2 to the 2"),
        ({"kind": "linear"}, "local_attention.num_key_heads: 0 is not allowed; local_attention of kind linear needs an integer"),
        (
            {"kind": "linear", "num_key_heads": 4, "num_value_heads": 6, "key_head_dim": 8, "value_head_dim": 8, "window": 0},
            "local_attention.num_value_heads: 6 is not allowed; give a multiple of the 4 key heads.",
        ),
        (
            {"kind": "linear", "num_key_heads": 4, "num_value_heads": 8, "key_head_dim": 8, "value_head_dim": 8},
            "local_attention.window: 16 is not allowed; local_attention of kind linear has none.",
        ),
        ({"kind": "chunked"}, "local_attention.kind: "),
    ],
)
def test_local_attention_that_does_not_fit_gets_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model_from_mapping({**DENSE, "local_attention": {"kind": "window", "window": 16, **changes}})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_latent_attention_has_no_gate() -> None:
    with pytest.raises(InputError, match=r"model\.attention_output_gate: true is not allowed with mla; give false\."):
        model_from_mapping({**DENSE, "mla": MLA, "attention_output_gate": True})


def test_nulls_of_a_run_record_are_defaults() -> None:
    record = {
        **DENSE,
        "family": "gpt",
        "num_noop_layers": 0,
        "padded_vocab_size": 1024,
        "mla": None,
        "moe": {**MOE, "moe_layer_freq": -1, "num_leading_dense_layers": -1, "num_groups": None, "capacity_factor": 1.1},
    }
    model = model_from_mapping(record)
    assert model.vocab_size == 1024
    assert model.moe == MoeShape(8, 2, 32, capacity_factor=1.1)


def test_a_model_of_moe_layers_alone_needs_no_dense_width() -> None:
    without = {name: value for name, value in DENSE.items() if name != "ffn_hidden_size"}
    assert model_from_mapping({**without, "moe": MOE}).ffn_hidden_size == 32
    with pytest.raises(InputError, match=r"model\.ffn_hidden_size: missing"):
        model_from_mapping({**without, "moe": {**MOE, "num_leading_dense_layers": 1}})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_layer": 3}, "model.num_layer: unknown key; did you mean 'num_layers'? Allowed: name"),
        ({"num_layers": 0}, "model.num_layers: 0 is not allowed; give an integer from 1 to 10,000."),
        ({"num_layers": True}, "model.num_layers: true is not allowed; give an integer from 1 to 10,000."),
        ({"num_layers": 2.5}, "model.num_layers: 2.5 is not allowed; give an integer from 1 to 10,000."),
        ({"num_layers": None}, "model.num_layers: missing; give an integer from 1 to 10,000."),
        ({"hidden_size": 10**400}, "model.hidden_size: an integer of more than 60 digits is not allowed; give an integer from 1"),
        ({"num_query_groups": 3}, "model.num_query_groups: 3 is not allowed; give a divisor of the 8 attention heads."),
        ({"num_query_groups": 16}, "model.num_query_groups: 16 is not allowed; give a divisor of the 8 attention heads."),
        ({"hidden_size": 65}, "model.kv_channels: missing; hidden_size 65 is no multiple of the 8 attention heads."),
        ({"padded_vocab_size": 999}, "model.padded_vocab_size: 999 is below vocab_size 1000."),
        ({"tied_embeddings": "no"}, "model.tied_embeddings: 'no' is not allowed; give true or false."),
        ({"num_noop_layers": 1}, "model.num_noop_layers: 1 is not allowed; no-op layers belong to a plan's layer layout"),
        ({"name": ""}, "model.name: '' is not allowed; give text of 1 to 600 characters."),
        ({"name": "a\nb"}, "model.name: 'a\\nb' is not allowed; give one line of printable characters."),
        ({"moe": []}, "model.moe: [] is not allowed; give a mapping with num_experts"),
        ({"moe": {**MOE, "topk": 1}}, "model.moe.topk: unknown key; did you mean 'top_k'? Allowed: num_experts"),
        ({"moe": {**MOE, "top_k": 9}}, "model.top_k: 9 is not allowed; 1 of 1 groups hold 8 experts."),
        ({"moe": {**MOE, "num_groups": 3}}, "model.num_groups: 3 is not allowed; give a divisor of the 8 experts."),
        ({"moe": {**MOE, "num_groups": 8, "group_topk": 1}}, "model.top_k: 2 is not allowed; 1 of 8 groups hold 1 experts."),
        (
            {"moe": {**MOE, "num_groups": 2, "group_topk": 3}},
            "model.group_topk: 3 is not allowed; give an integer from 1 to",
        ),
        (
            {"moe": {**MOE, "moe_layer_freq": 0}},
            "model.moe.moe_layer_freq: 0 is not allowed; give -1 (every layer) or an",
        ),
        ({"moe": {**MOE, "num_leading_dense_layers": 2}}, "model.moe.num_leading_dense_layers: 2 is not allowed; give less than"),
        ({"moe": {**MOE, "capacity_factor": float("nan")}}, "model.moe.capacity_factor: nan is not allowed; give a number from"),
        ({"mla": {**MLA, "kv_lora_rank": 0}}, "model.mla.kv_lora_rank: 0 is not allowed; give an integer from 1 to 1,000,000."),
        ({"num_layers": 10_000, "hidden_size": 10**6, "ffn_hidden_size": 10**6}, "parameters; at most 1e+16 are allowed."),
    ],
)
def test_bad_input_gets_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model_from_mapping({**DENSE, **changes})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "vocab_size"])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"job.yaml: model.{name}: missing; give"):
        model_from_mapping({key: value for key, value in DENSE.items() if key != name}, "job.yaml: model")


def model_or_sentence(mapping: object) -> ModelShape | str:
    try:
        return model_from_mapping(mapping)
    except InputError as error:
        return str(error)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(0, 300) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def fuzzed(valid: Mapping[str, object], names: tuple[str, ...]) -> st.SearchStrategy[dict[str, object]]:
    """``valid`` with a few fields replaced and a few dropped."""
    changes = st.dictionaries(st.sampled_from(names) | st.text(max_size=5), ANYTHING, max_size=3)
    dropped = st.sets(st.sampled_from(names), max_size=2)
    return st.builds(
        lambda change, drop: {name: value for name, value in {**valid, **change}.items() if name not in drop}, changes, dropped
    )


@given(
    fuzzed(DENSE, MODEL_FIELDS),
    st.none() | fuzzed(MOE, MOE_FIELDS) | ANYTHING,
    st.none() | fuzzed(MLA, MLA_FIELDS) | ANYTHING,
)
def test_any_mapping_gives_a_shape_that_reads_back_or_a_model_error(mapping: dict[str, object], moe: object, mla: object) -> None:
    outcome = model_or_sentence({**mapping, "moe": moe, "mla": mla})
    if isinstance(outcome, str):
        assert "\n" not in outcome
    else:
        again = json.loads(json.dumps(model_to_mapping(outcome)))
        assert model_from_mapping(again) == outcome


@given(ANYTHING)
def test_anything_at_all_is_a_model_error(value: object) -> None:
    with pytest.raises(InputError):
        model_from_mapping(value)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_dashboard_has_a_name_for_every_dimension_of_attention_and_experts(language: str) -> None:
    locales = Path(__file__).parents[5] / "dashboard" / "src" / "locales"
    names = json.loads((locales / language / "models.json").read_text(encoding="utf-8"))["dim"]
    assert {*MLA_FIELDS, *MOE_FIELDS} <= set(names)
