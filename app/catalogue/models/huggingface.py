"""``ModelShape`` from a Hugging Face ``config.json`` [transformers-main, models/*/configuration_*.py]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from app.catalogue.models.shape import check_shape, head_width
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape
from documents.bounds import (
    CONFIG_BYTES,
    MAX_LAYERS,
    Experts,
    FfnWidth,
    Layers,
    Line,
    MtpLayers,
    NullableWidth,
    NumLayers,
    SharedExperts,
    Vocab,
    Width,
)
from documents.checking import LenientSection, check
from documents.errors import InputError, nearest, show
from documents.reading import Limits, read_document

LIMITS = Limits(CONFIG_BYTES)
Nulls = frozenset[str]  # fields that are null, which the library tells from those that are left out


def _no_bias(given: bool) -> bool:
    if given:
        raise ValueError("true is not allowed; biases in the MLP are not modelled.")
    return given


class _TypedConfig(LenientSection):
    model_type: Line


class _DenseConfig(_TypedConfig):
    num_hidden_layers: NumLayers
    hidden_size: Width
    num_attention_heads: Width
    num_key_value_heads: Width | None = None
    head_dim: Width | None = None
    intermediate_size: FfnWidth
    vocab_size: Vocab
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: Annotated[bool, AfterValidator(_no_bias)] = False
    layer_types: list[Literal["full_attention"]] | None = Field(default=None, max_length=MAX_LAYERS)
    sliding_window: Any = None
    use_sliding_window: bool = False
    max_window_layers: Layers | None = None


class _MixtralConfig(_DenseConfig):
    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    num_experts_per_tok: Experts


class _Qwen3MoeConfig(_DenseConfig):
    num_experts: SharedExperts | None = None
    num_local_experts: SharedExperts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: FfnWidth | None = None
    decoder_sparse_step: NumLayers = 1
    mlp_only_layers: Annotated[list[Layers], Field(max_length=MAX_LAYERS)] = Field(default=[])
    norm_topk_prob: bool = False  # only scales the router's weights


class _DeepseekConfig(_DenseConfig):
    q_lora_rank: NullableWidth | None = None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: NullableWidth
    v_head_dim: Width
    num_nextn_predict_layers: MtpLayers = 0
    n_routed_experts: Experts | None = None
    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: FfnWidth | None = None
    n_shared_experts: SharedExperts | None = None
    first_k_dense_replace: Layers = 0
    moe_layer_freq: NumLayers = 1
    n_group: Experts | None = None
    topk_group: Experts | None = None
    topk_method: str | None = None
    norm_topk_prob: bool = False  # only scales the router's weights


def model_from_config_file(path: Path) -> ModelShape:
    """The shape in a ``config.json``, named after its folder, or after the file if called otherwise; raises ``InputError``."""
    where = str(path) if str(path).isprintable() else repr(str(path))
    config = read_document(path, LIMITS, is_json=True)
    return model_from_config(config, where, path.absolute().parent.name if path.stem == "config" else path.stem)


def model_from_config(config: object, where: str = "config.json", name: str = "") -> ModelShape:
    """The shape that a parsed ``config.json`` describes; raises ``InputError``."""
    try:
        model_type = check(_TypedConfig, config).model_type
        if model_type not in _READERS:
            similar = nearest(model_type, _READERS)
            hint = f" (nearest: {similar})" if similar else ""
            raise InputError(
                f"model_type: {show(model_type)} is not supported{hint}; supported: {', '.join(SUPPORTED_MODEL_TYPES)}."
            )
        section, reader = _READERS[model_type]
        assert isinstance(config, Mapping)  # else it had no model_type
        nulls = frozenset(str(key) for key, value in config.items() if value is None)
        model = reader(check(section, config), name if name and name.isprintable() else model_type, nulls)
        check_shape(model, "")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return model


def _llama(config: _DenseConfig, name: str, nulls: Nulls) -> ModelShape:
    return _dense(config, name, nulls, attention_bias=config.attention_bias)


def _qwen2(config: _DenseConfig, name: str, nulls: Nulls) -> ModelShape:
    return _dense(config, name, nulls, attention_bias=True)  # fixed in the modelling code: q, k and v have a bias


def _qwen3(config: _DenseConfig, name: str, nulls: Nulls) -> ModelShape:
    return _dense(config, name, nulls, attention_bias=config.attention_bias, qk_layernorm=True, default_head_dim=128)


def _mixtral(config: _MixtralConfig, name: str, nulls: Nulls) -> ModelShape:
    if config.sliding_window is not None:
        raise _windowed("sliding_window", config.sliding_window, "null")
    moe = MoeShape(
        num_experts=_num_experts(config, ("num_local_experts", "num_experts")),
        top_k=config.num_experts_per_tok,
        expert_ffn_hidden_size=config.intermediate_size,
    )
    return _dense(config, name, nulls, moe=moe)


def _qwen3_moe(config: _Qwen3MoeConfig, name: str, nulls: Nulls) -> ModelShape:
    num_layers = config.num_hidden_layers
    for index in config.mlp_only_layers:
        if index >= num_layers:
            raise InputError(f"mlp_only_layers: {index} is not allowed; give layer numbers from 0 to {num_layers - 1}.")
    step, dense_layers = config.decoder_sparse_step, frozenset(config.mlp_only_layers)
    pattern = tuple(index not in dense_layers and (index + 1) % step == 0 for index in range(num_layers))
    num_experts = _num_experts(config, ("num_experts", "num_local_experts"))
    moe = None
    if num_experts and any(pattern):
        first, frequency = _moe_period("mlp_only_layers", pattern)
        moe = MoeShape(
            num_experts=num_experts,
            top_k=_given(config, "num_experts_per_tok"),
            expert_ffn_hidden_size=_given(config, "moe_intermediate_size"),
            num_leading_dense_layers=first,
            moe_layer_freq=frequency,
        )
    return _dense(config, name, nulls, attention_bias=config.attention_bias, qk_layernorm=True, moe=moe)


def _deepseek(config: _DeepseekConfig, name: str, nulls: Nulls) -> ModelShape:
    heads = config.num_attention_heads
    _refuse_windows(config, nulls)
    if config.num_key_value_heads not in (None, heads):
        raise InputError(
            f"num_key_value_heads: {config.num_key_value_heads} is not allowed; latent attention has as many as attention heads, "
            f"{heads}."
        )
    mla = MlaShape(
        q_lora_rank=_nullable(config, "q_lora_rank", nulls),
        kv_lora_rank=config.kv_lora_rank,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        v_head_dim=config.v_head_dim,
    )
    return ModelShape(
        name=name,
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=heads,
        num_query_groups=heads,
        kv_channels=mla.qk_nope_head_dim + mla.qk_rope_head_dim,
        ffn_hidden_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        tied_embeddings=config.tie_word_embeddings,
        mtp_num_layers=config.num_nextn_predict_layers,
        attention_bias=config.attention_bias,
        mla=mla,
        moe=_deepseek_moe(config, nulls),
    )


def _deepseek_moe(config: _DeepseekConfig, nulls: Nulls) -> MoeShape | None:
    if "n_routed_experts" in nulls:
        return None  # null: a dense model in the publisher's own code
    num_experts = _num_experts(config, ("n_routed_experts", "num_local_experts", "num_experts"))
    leading, every = config.first_k_dense_replace, config.moe_layer_freq
    pattern = tuple(index >= leading and index % every == 0 for index in range(config.num_hidden_layers))
    if not any(pattern):
        return None
    first, frequency = _moe_period("moe_layer_freq", pattern)
    num_shared, width = _nullable(config, "n_shared_experts", nulls), _given(config, "moe_intermediate_size")
    if config.model_type == "deepseek_v3":
        _nullable(config, "n_group", nulls)
    # "greedy" ignores the groups [transformers-main, modeling_deepseek_v2.py].
    grouped = config.n_group is not None and config.topk_method != "greedy"
    return MoeShape(
        num_experts=num_experts,
        top_k=_given(config, "num_experts_per_tok"),
        expert_ffn_hidden_size=width,
        num_shared_experts=num_shared,
        shared_expert_ffn_hidden_size=num_shared * width,
        num_leading_dense_layers=first,
        moe_layer_freq=frequency,
        num_groups=_given(config, "n_group") if grouped else 1,
        group_topk=_given(config, "topk_group") if grouped else 1,
    )


def _dense(
    config: _DenseConfig,
    name: str,
    nulls: Nulls,
    *,
    attention_bias: bool = False,
    qk_layernorm: bool = False,
    default_head_dim: int | None = None,
    moe: MoeShape | None = None,
) -> ModelShape:
    """Grouped-query attention and gated MLPs: what all but DeepSeek share."""
    _refuse_windows(config, nulls)
    hidden_size, heads = config.hidden_size, config.num_attention_heads
    return ModelShape(
        name=name,
        num_layers=config.num_hidden_layers,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        num_query_groups=_num_query_groups(config, nulls),
        kv_channels=config.head_dim or default_head_dim or head_width(hidden_size, heads, "head_dim"),
        ffn_hidden_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        tied_embeddings=config.tie_word_embeddings,
        qk_layernorm=qk_layernorm,
        attention_bias=attention_bias,
        moe=moe,
    )


def _num_query_groups(config: _DenseConfig, nulls: Nulls) -> int:
    """Null means as many as attention heads everywhere; absent means so in llama alone, elsewhere a number nobody wants."""
    if config.num_key_value_heads is None and (config.model_type == "llama" or "num_key_value_heads" in nulls):
        return config.num_attention_heads
    return _given(config, "num_key_value_heads")


def _refuse_windows(config: _DenseConfig, nulls: Nulls) -> None:
    if config.layer_types is not None or not config.use_sliding_window or "sliding_window" in nulls:
        return
    # Windows start at this layer [transformers-main, configuration_qwen2.py].
    start = config.max_window_layers if config.model_type in ("qwen2", "qwen3") else None
    if start is None or start < config.num_hidden_layers:
        raise _windowed("use_sliding_window", True, "false")


def _windowed(field: str, value: object, needed: str) -> InputError:
    return InputError(f"{field}: {show(value)} is not allowed; windowed attention is not modelled, give {needed}.")


def _given(config: _DenseConfig, name: str) -> int:
    """A field that this kind of model needs."""
    value: int | None = getattr(config, name)
    if value is None:
        raise InputError(f"{name}: missing; give an integer.")
    return value


def _nullable(config: _DenseConfig, name: str, nulls: Nulls) -> int:
    """An integer whose null means 0; it must be written, because the library's default depends on its version."""
    value: int | None = getattr(config, name)
    if value is None and name not in nulls:
        raise InputError(f"{name}: missing; give an integer, or null for none.")
    return value or 0


def _num_experts(config: _DenseConfig, names: tuple[str, ...]) -> int:
    """The first of ``names`` that is there: transformers writes one under several."""
    counts = {name: count for name in names if (count := getattr(config, name)) is not None}
    if not counts:
        raise InputError(f"{names[0]}: missing; give an integer.")
    first, *others = counts
    for name in others:
        if counts[name] != counts[first]:
            raise InputError(f"{name}: {counts[name]} is not allowed; {first} says {counts[first]}.")
    return int(counts[first])


def _moe_period(name: str, pattern: tuple[bool, ...]) -> tuple[int, int]:
    """``num_leading_dense_layers`` and ``moe_layer_freq`` that give ``pattern``, which has a MoE layer."""
    moe_layers = [index for index, is_moe in enumerate(pattern) if is_moe]
    frequency = moe_layers[1] - moe_layers[0] if len(moe_layers) > 1 else max(len(pattern) - moe_layers[0], 1)
    first = moe_layers[0] - frequency + 1
    rebuilt = tuple(index >= first and (index - first) % frequency == frequency - 1 for index in range(len(pattern)))
    if first < 0 or rebuilt != pattern:
        raise InputError(
            f"{name}: it puts MoE layers at an irregular distance; dense layers may only lead, or alternate with a fixed period."
        )
    return first, frequency


_READERS: Mapping[str, tuple[type[_DenseConfig], Callable[[Any, str, Nulls], ModelShape]]] = {
    "llama": (_DenseConfig, _llama),
    "qwen2": (_DenseConfig, _qwen2),
    "qwen3": (_DenseConfig, _qwen3),
    "qwen3_moe": (_Qwen3MoeConfig, _qwen3_moe),
    "mixtral": (_MixtralConfig, _mixtral),
    "deepseek_v2": (_DeepseekConfig, _deepseek),
    "deepseek_v3": (_DeepseekConfig, _deepseek),
}
SUPPORTED_MODEL_TYPES = tuple(_READERS)
