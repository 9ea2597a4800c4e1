"""``ModelShape`` from a Hugging Face ``config.json`` [transformers-main, models/*/configuration_*.py]."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from app.catalogue.models.fields import Fields, ModelError, shown, similar_name
from app.catalogue.models.shape import (
    MAX_EXPERTS,
    MAX_FFN_WIDTH,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_MTP_LAYERS,
    MAX_VOCAB,
    MAX_WIDTH,
    check_shape,
)
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape

MAX_FILE_BYTES = 2**20


def model_from_config_file(path: Path) -> ModelShape:
    """The shape in a ``config.json``, named after its folder, or after the file if called otherwise; raises ``ModelError``."""
    where = str(path) if str(path).isprintable() else repr(str(path))
    try:
        if not path.is_file():
            raise ModelError(f"{where}: no such file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{where}: cannot be read: {error.strerror or error}") from error
    return model_from_config(_parsed(content, where), where, path.absolute().parent.name if path.stem == "config" else path.stem)


def model_from_config(config: object, where: str = "config.json", name: str = "") -> ModelShape:
    """The shape that a parsed ``config.json`` describes; raises ``ModelError``."""
    fields = Fields(config, where)
    model_type = fields.text("model_type")
    reader = _READERS.get(model_type)
    if reader is None:
        similar = similar_name(model_type, _READERS)
        hint = f" (nearest: {similar})" if similar else ""
        raise ModelError(
            f"{where}: model_type: {shown(model_type)} is not supported{hint}; supported: {', '.join(SUPPORTED_MODEL_TYPES)}"
        )
    model = reader(fields, name if name and name.isprintable() else model_type)
    check_shape(model, where)
    return model


def _parsed(content: bytes, where: str) -> object:
    if len(content) > MAX_FILE_BYTES:
        raise ModelError(f"{where}: larger than {MAX_FILE_BYTES} bytes, a config.json is a few kilobytes")
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise ModelError(f"{where}: not a config.json: nested too deeply") from None
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from None
    except ValueError as error:
        raise ModelError(f"{where}: not valid JSON: {error}") from None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ModelError(f"the key {shown(key)} occurs twice")
            seen.add(key)
    return values


def _refuse_constant(constant: str) -> NoReturn:
    raise ModelError(f"{constant} is not a JSON number")


def _llama(fields: Fields, name: str) -> ModelShape:
    return _dense(fields, name, attention_bias=fields.boolean_or("attention_bias", False))


def _qwen2(fields: Fields, name: str) -> ModelShape:
    return _dense(fields, name, attention_bias=True)  # fixed in the modelling code: q, k and v have a bias


def _qwen3(fields: Fields, name: str) -> ModelShape:
    return _dense(
        fields, name, attention_bias=fields.boolean_or("attention_bias", False), qk_layernorm=True, default_head_dim=128
    )


def _mixtral(fields: Fields, name: str) -> ModelShape:
    if "sliding_window" in fields:
        raise fields.error("sliding_window", "windowed attention is not modelled: null is needed")
    width = fields.integer("intermediate_size", 1, MAX_FFN_WIDTH)
    num_experts = _num_experts(fields, ("num_local_experts", "num_experts"))
    moe = MoeShape(
        num_experts=num_experts,
        top_k=fields.integer("num_experts_per_tok", 1, num_experts),
        expert_ffn_hidden_size=width,
    )
    return _dense(fields, name, moe=moe)


def _qwen3_moe(fields: Fields, name: str) -> ModelShape:
    num_layers = fields.integer("num_hidden_layers", 1, MAX_LAYERS)
    step = fields.integer_or("decoder_sparse_step", 1, 1, MAX_LAYERS)
    dense_layers = _layer_indices(fields, "mlp_only_layers", num_layers)
    pattern = tuple(index not in dense_layers and (index + 1) % step == 0 for index in range(num_layers))
    num_experts = _num_experts(fields, ("num_experts", "num_local_experts"), low=0)
    fields.boolean_or("norm_topk_prob", False)  # only scales the router's weights
    moe = None
    if num_experts and any(pattern):
        first, frequency = _moe_period(fields, "mlp_only_layers", pattern)
        moe = MoeShape(
            num_experts=num_experts,
            top_k=fields.integer("num_experts_per_tok", 1, num_experts),
            expert_ffn_hidden_size=fields.integer("moe_intermediate_size", 1, MAX_FFN_WIDTH),
            num_leading_dense_layers=first,
            moe_layer_freq=frequency,
        )
    return _dense(fields, name, attention_bias=fields.boolean_or("attention_bias", False), qk_layernorm=True, moe=moe)


def _deepseek(fields: Fields, name: str) -> ModelShape:
    num_layers = fields.integer("num_hidden_layers", 1, MAX_LAYERS)
    num_heads = fields.integer("num_attention_heads", 1, MAX_HEADS)
    _refuse_unmodelled(fields, num_layers)
    if fields.integer_or("num_key_value_heads", num_heads, 1, MAX_HEADS) != num_heads:
        raise fields.error("num_key_value_heads", f"latent attention has as many as attention heads: {num_heads} is needed")
    mla = MlaShape(
        q_lora_rank=_nullable(fields, "q_lora_rank", MAX_WIDTH),
        kv_lora_rank=fields.integer("kv_lora_rank", 1, MAX_WIDTH),
        qk_nope_head_dim=fields.integer("qk_nope_head_dim", 1, MAX_WIDTH),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim", 0, MAX_WIDTH),
        v_head_dim=fields.integer("v_head_dim", 1, MAX_WIDTH),
    )
    return ModelShape(
        name=name,
        num_layers=num_layers,
        hidden_size=fields.integer("hidden_size", 1, MAX_WIDTH),
        num_attention_heads=num_heads,
        num_query_groups=num_heads,
        kv_channels=mla.qk_nope_head_dim + mla.qk_rope_head_dim,
        ffn_hidden_size=fields.integer("intermediate_size", 1, MAX_FFN_WIDTH),
        vocab_size=fields.integer("vocab_size", 1, MAX_VOCAB),
        tied_embeddings=fields.boolean_or("tie_word_embeddings", False),
        mtp_num_layers=fields.integer_or("num_nextn_predict_layers", 0, 0, MAX_MTP_LAYERS),
        attention_bias=fields.boolean_or("attention_bias", False),
        mla=mla,
        moe=_deepseek_moe(fields, num_layers),
    )


def _deepseek_moe(fields: Fields, num_layers: int) -> MoeShape | None:
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    if fields.has_key("n_routed_experts") and "n_routed_experts" not in fields:
        return None  # null: a dense model in the publisher's own code
    num_experts = _num_experts(fields, names)
    leading = fields.integer_or("first_k_dense_replace", 0, 0, num_layers)
    every = fields.integer_or("moe_layer_freq", 1, 1, MAX_LAYERS)
    pattern = tuple(index >= leading and index % every == 0 for index in range(num_layers))
    if not any(pattern):
        return None
    first, frequency = _moe_period(fields, "moe_layer_freq", pattern)
    num_shared = _nullable(fields, "n_shared_experts", MAX_EXPERTS)
    width = fields.integer("moe_intermediate_size", 1, MAX_FFN_WIDTH)
    if fields.raw("model_type") == "deepseek_v3" and not fields.has_key("n_group"):
        raise fields.error("n_group", "the field is missing; an integer, or null for no groups, is needed")
    # "greedy" ignores the groups [transformers-main, modeling_deepseek_v2.py].
    grouped = "n_group" in fields and fields.text_or("topk_method", "") != "greedy"
    num_groups = fields.integer("n_group", 1, num_experts) if grouped else 1
    fields.boolean_or("norm_topk_prob", False)  # only scales the router's weights
    return MoeShape(
        num_experts=num_experts,
        top_k=fields.integer("num_experts_per_tok", 1, num_experts),
        expert_ffn_hidden_size=width,
        num_shared_experts=num_shared,
        shared_expert_ffn_hidden_size=num_shared * width,
        num_leading_dense_layers=first,
        moe_layer_freq=frequency,
        num_groups=num_groups,
        group_topk=fields.integer("topk_group", 1, num_groups) if grouped else 1,
    )


def _dense(
    fields: Fields,
    name: str,
    *,
    attention_bias: bool = False,
    qk_layernorm: bool = False,
    default_head_dim: int | None = None,
    moe: MoeShape | None = None,
) -> ModelShape:
    """Grouped-query attention and gated MLPs: what all but DeepSeek share."""
    num_layers = fields.integer("num_hidden_layers", 1, MAX_LAYERS)
    _refuse_unmodelled(fields, num_layers)
    hidden_size = fields.integer("hidden_size", 1, MAX_WIDTH)
    num_heads = fields.integer("num_attention_heads", 1, MAX_HEADS)
    return ModelShape(
        name=name,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_attention_heads=num_heads,
        num_query_groups=_num_query_groups(fields, num_heads),
        kv_channels=_head_dim(fields, hidden_size, num_heads, default_head_dim),
        ffn_hidden_size=fields.integer("intermediate_size", 1, MAX_FFN_WIDTH),
        vocab_size=fields.integer("vocab_size", 1, MAX_VOCAB),
        tied_embeddings=fields.boolean_or("tie_word_embeddings", False),
        qk_layernorm=qk_layernorm,
        attention_bias=attention_bias,
        moe=moe,
    )


def _num_query_groups(fields: Fields, num_heads: int) -> int:
    """Null means as many as attention heads everywhere; absent means so in llama alone, elsewhere a number nobody wants."""
    absent_is_heads = fields.raw("model_type") == "llama"
    if "num_key_value_heads" not in fields and (absent_is_heads or fields.has_key("num_key_value_heads")):
        return num_heads
    return fields.integer("num_key_value_heads", 1, num_heads)


def _head_dim(fields: Fields, hidden_size: int, num_heads: int, default: int | None) -> int:
    if "head_dim" in fields:
        return fields.integer("head_dim", 1, MAX_WIDTH)
    if default is not None:
        return default
    if hidden_size % num_heads:
        raise ModelError(
            f"{fields.where}: the field head_dim is missing, and hidden_size {hidden_size} is no multiple of "
            f"num_attention_heads {num_heads}"
        )
    return hidden_size // num_heads


def _refuse_unmodelled(fields: Fields, num_layers: int) -> None:
    if fields.boolean_or("mlp_bias", False):
        raise fields.error("mlp_bias", "biases in the MLP are not modelled: false is needed")
    layer_types = fields.raw("layer_types")
    if layer_types is not None:
        if not isinstance(layer_types, list) or any(kind != "full_attention" for kind in layer_types):
            raise fields.error("layer_types", 'only "full_attention" is modelled')
        return
    no_width = fields.has_key("sliding_window") and "sliding_window" not in fields
    if not fields.boolean_or("use_sliding_window", False) or no_width:
        return
    if fields.raw("model_type") in ("qwen2", "qwen3") and "max_window_layers" in fields:
        # Windows start at this layer [transformers-main, configuration_qwen2.py].
        if fields.integer("max_window_layers", 0, MAX_LAYERS) >= num_layers:
            return
    raise fields.error("use_sliding_window", "windowed attention is not modelled: false is needed")


def _num_experts(fields: Fields, names: tuple[str, ...], low: int = 1) -> int:
    """The first of ``names`` that is there: transformers writes one under several."""
    present = [name for name in names if name in fields]
    if not present:
        return fields.integer(names[0], low, MAX_EXPERTS)
    counts = {name: fields.integer(name, low, MAX_EXPERTS) for name in present}
    first = counts[present[0]]
    for name, count in counts.items():
        if count != first:
            raise fields.error(name, f"{present[0]} says {first}")
    return first


def _nullable(fields: Fields, name: str, high: int) -> int:
    """An integer whose null means 0; it must be written, because the library's default depends on its version."""
    if fields.has_key(name) and name not in fields:
        return 0
    return fields.integer(name, 0, high)


def _layer_indices(fields: Fields, name: str, num_layers: int) -> frozenset[int]:
    values = fields.raw(name)
    if values is None:
        return frozenset()
    if not isinstance(values, list):
        raise fields.error(name, "a list of layer numbers is needed")
    for index in values:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < num_layers:
            raise ModelError(f"{fields.where}: {name} holds {shown(index)}, layer numbers from 0 to {num_layers - 1} are needed")
    return frozenset(values)


def _moe_period(fields: Fields, name: str, pattern: tuple[bool, ...]) -> tuple[int, int]:
    """``num_leading_dense_layers`` and ``moe_layer_freq`` that give ``pattern``, which has a MoE layer."""
    moe_layers = [index for index, is_moe in enumerate(pattern) if is_moe]
    frequency = moe_layers[1] - moe_layers[0] if len(moe_layers) > 1 else max(len(pattern) - moe_layers[0], 1)
    first = moe_layers[0] - frequency + 1
    rebuilt = tuple(index >= first and (index - first) % frequency == frequency - 1 for index in range(len(pattern)))
    if first < 0 or rebuilt != pattern:
        raise ModelError(
            f"{fields.where}: {name} puts MoE layers at an irregular distance; "
            "dense layers may only lead, or alternate with a fixed period"
        )
    return first, frequency


_READERS: Mapping[str, Callable[[Fields, str], ModelShape]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
SUPPORTED_MODEL_TYPES = tuple(_READERS)
