from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.training import RunRecord
from cost_models.shapes.workload import LocalAttention

Read = Callable[..., RunRecord]
Refuse = Callable[..., str]


def test_missing_widths_take_usual_values_and_say_so(read: Read) -> None:
    record = read(
        {
            "model.num_attention_heads": None,
            "model.num_query_groups": None,
            "model.kv_channels": None,
            "model.ffn_hidden_size": None,
        }
    )
    model = record.workload.model
    assert (model.num_attention_heads, model.kv_channels, model.num_query_groups) == (32, 128, 32)  # 4096 / 128
    assert model.ffn_hidden_size == 16384  # 4 x 4096
    assert record.warnings == (
        "model.num_attention_heads: None is not stated, read as 32 of 128 channels.",
        "model.ffn_hidden_size: None is not stated, read as 16384.",
    )


def test_experts_without_widths_take_usual_ones_and_say_so(read: Read) -> None:
    record = read({"model.moe": {"num_experts": 8, "top_k": None}, "model.ffn_hidden_size": 14336, "strategy.ep": 2})
    moe = record.workload.model.moe
    assert moe is not None
    assert (moe.num_experts, moe.top_k, moe.expert_ffn_hidden_size) == (8, 2, 14336)
    assert record.warnings[:2] == (
        "model.moe.expert_ffn_hidden_size: None is not stated, read as 14336.",
        "model.moe.top_k: None is not stated, read as 2.",
    )


def test_latent_heads_without_widths_are_megatrons_and_say_so(read: Read) -> None:
    record = read({"model.mla": {"kv_lora_rank": 256, "qk_nope_head_dim": None}})
    mla = record.workload.model.mla
    assert mla is not None
    assert (mla.kv_lora_rank, mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim) == (256, 128, 64, 128)
    assert len([warning for warning in record.warnings if warning.startswith("model.mla.")]) == 3


@pytest.mark.parametrize("value", [{}, {"num_experts": None, "top_k": None}, {"num_experts": 0, "top_k": 0}, False])
def test_a_section_that_says_nothing_is_no_section(read: Read, value: object) -> None:
    plain = read().workload.model
    assert read({"model.moe": value}).workload.model == plain
    assert read({"model.mla": value if value != {"num_experts": 0, "top_k": 0} else {}}).workload.model == plain


def test_head_channels_follow_from_the_heads(read: Read) -> None:
    assert read({"model.num_attention_heads": 16, "model.kv_channels": None}).workload.model.kv_channels == 256  # 4096 / 16


@pytest.mark.parametrize(
    ("framework", "padded", "expected"),
    [
        ("MindSpeed-LLM", None, 50258),  # multiples of tp 2
        ("Megatron-LM", None, 50432),  # multiples of 128 x 2: 197 x 256
        ("Megatron-LM", 51200, 51200),
    ],
)
def test_the_vocabulary_is_padded_as_the_framework_does(read: Read, framework: str, padded: int | None, expected: int) -> None:
    record = read({"model.vocab_size": 50257, "model.padded_vocab_size": padded, "software.framework": framework})
    assert record.workload.model.vocab_size == expected


@pytest.mark.parametrize(
    ("num_layers", "num_noop", "listed", "computing"),
    [
        (30, 2, None, 30),  # 30 + 2 fill 4 stages
        (32, 2, None, 30),  # 32 fill them, so the two no-ops are among them
        (30, 0, "30,31", 30),
        (32, 0, "30,31", 30),
    ],
)
def test_noop_layers_do_not_compute(read: Read, num_layers: int, num_noop: int, listed: str | None, computing: int) -> None:
    record = read({"model.num_layers": num_layers, "model.num_noop_layers": num_noop, "strategy.noop_layers": listed})
    assert record.workload.model.num_layers == computing
    if listed:
        assert record.strategy.layer_layout == ((8, 8, 8, 6),)


def test_moe_defaults(read: Read, moe: dict[str, Any]) -> None:
    shape = read({"model.moe": {**moe, "num_leading_dense_layers": -1, "moe_layer_freq": -1}}).workload.model.moe
    assert shape is not None
    assert shape.shared_expert_ffn_hidden_size == 2 * 1408
    assert (shape.num_leading_dense_layers, shape.moe_layer_freq, shape.num_groups, shape.group_topk) == (0, 1, 1, 1)
    assert shape.capacity_factor is None


@pytest.mark.parametrize("pattern", ["([0]*3+[1]*29)", [0, 0, 0] + [1] * 29])
def test_patterns_of_moe_layers_are_read(read: Read, moe: dict[str, Any], pattern: object) -> None:
    record = read({"model.moe": {**moe, "moe_layer_freq": pattern}})
    assert record.workload.model.moe_layers() == (False,) * 3 + (True,) * 29
    assert record.warnings == ()


def test_a_mixed_pattern_is_read_with_a_warning(read: Read, moe: dict[str, Any]) -> None:
    record = read({"model.moe": {**moe, "moe_layer_freq": [0, 1] * 16}})
    assert record.workload.model.moe_layers() == (False,) + (True,) * 31
    assert "all after the first MoE layer are read as MoE" in record.warnings[0]


def test_more_experts_a_token_than_there_are_is_refused(refuse: Refuse, moe: dict[str, Any]) -> None:
    assert refuse({"model.moe": {**moe, "top_k": 65}}) == (
        "model.moe.top_k: 65 is not allowed; give an integer up to num_experts 64."
    )


def test_mla_without_query_compression(read: Read) -> None:
    mla = {"q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    shape = read({"model.mla": mla}).workload.model.mla
    assert shape is not None
    assert (shape.q_lora_rank, shape.kv_lora_rank) == (0, 512)


@pytest.mark.parametrize(
    ("flags", "window"),
    [
        (["sliding-window=4096"], LocalAttention("window", 0, 4096)),
        (["interleave-sliding-window=4096"], LocalAttention("window", 2, 4096)),
        (["window-size=(4095, 0)"], LocalAttention("window", 0, 4096)),  # itself and those before it
        (["window-size=127,0", "window-attn-skip-freq=2"], LocalAttention("window", 2, 128)),
        (["sliding-window=none"], None),
        (["sliding-window=wide"], None),
    ],
)
def test_windows_of_attention_are_read(read: Read, flags: list[str], window: LocalAttention | None) -> None:
    record = read({"software.raw_flags": flags})
    assert record.workload.model.local_attention == window
    assert bool(record.warnings) == (flags == ["sliding-window=wide"])


@pytest.mark.parametrize(
    ("framework", "version", "flags", "stated", "expected"),
    [
        ("MindFormers", "branch r1.3.0", [], None, 1.1),
        ("MindFormers", "branch r1.3.0", [], 1.5, 1.5),
        ("MindFormers", "branch r1.6.0", ["use_gmm=True"], None, None),
        ("MindFormers", "branch r1.7.0", [], None, None),
        ("MindSpeed-LLM", "git 0 (2024-09-09)", [], None, None),
    ],
)
def test_experts_of_mindformers_before_its_core_layers_have_a_capacity(
    read: Read, moe: dict[str, Any], framework: str, version: str, flags: list[str], stated: float | None, expected: float | None
) -> None:
    software = {"software.framework": framework, "software.version": version, "software.raw_flags": flags}
    shape = read({**software, "model.moe": {**moe, "capacity_factor": stated}}).workload.model.moe
    assert shape is not None
    assert shape.capacity_factor == expected


def test_what_a_model_has_beyond_its_dimensions_is_read_where_it_is_stated(read: Read) -> None:
    moe = {"num_experts": 8, "top_k": 2, "expert_ffn_hidden_size": 2880, "expert_biases": True}
    window = {"model.sliding_window": 128, "model.full_attention_every": 2}
    stated = {
        "model.moe": moe,
        "model.attention_bias": True,
        "model.attention_sinks": True,
        "model.activation_clamp": 7.0,
        **window,
    }
    model = read(stated).workload.model
    assert model.moe is not None
    assert model.moe.expert_biases
    assert (model.attention_bias, model.constants.attention_sinks, model.constants.activation_clamp) == (True, True, 7.0)
    assert model.local_attention == LocalAttention("window", full_attention_every=2, window=128)
    silent = read({"model.moe": {**moe, "expert_biases": None}}).workload.model
    assert silent.moe is not None
    assert not silent.moe.expert_biases
    assert (silent.attention_bias, silent.constants.activation_clamp, silent.local_attention) == (False, None, None)


def test_a_clamp_is_read_from_its_flag(read: Read) -> None:
    changes = {"software.framework": "Megatron-LM", "software.raw_flags": ["activation-func-clamp-value=7.0"]}
    assert read(changes).workload.model.constants.activation_clamp == 7.0
