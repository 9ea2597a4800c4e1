"""Qwen2, Qwen3 and their MoE and hybrid variants."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Source, given
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import (
    LayerTypes,
    Window,
    full_attention_every,
    moe_period,
    num_experts,
    of_type,
    routed_experts,
    softmax_router,
    windowed,
    with_shared_experts,
)
from app.catalogue.models.shape import Fraction
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.workload import LocalAttention, ModelShape, MoeShape
from documents.bounds import MAX_LAYERS, Experts, FfnWidth, Layers, NumLayers, SharedExperts, Width
from documents.errors import InputError
from documents.sentences import Sentence

DEFAULT_WINDOW, DEFAULT_WINDOW_START = 4096, 28  # defaults of sliding_window and max_window_layers [configuration_qwen2.py]


class QwenConfig(BiasedConfig):
    """[configuration_qwen2.py, configuration_qwen3.py]."""

    layer_types: LayerTypes | None = None
    use_sliding_window: bool = False
    sliding_window: Window | None = None
    max_window_layers: Layers | None = None

    default_positions: ClassVar[int] = 32_768


class QwenMoeConfig(QwenConfig):
    """[configuration_qwen3_moe.py]."""

    num_experts: SharedExperts | None = None
    num_local_experts: SharedExperts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: FfnWidth | None = None
    decoder_sparse_step: NumLayers = 1
    mlp_only_layers: Annotated[list[Layers], Field(max_length=MAX_LAYERS)] = Field(default=[])
    norm_topk_prob: bool = False


class Qwen2MoeConfig(QwenMoeConfig):
    """[configuration_qwen2_moe.py]."""

    shared_expert_intermediate_size: FfnWidth | None = None
    qkv_bias: bool = True


class Qwen3NextConfig(QwenMoeConfig):
    """[configuration_qwen3_next.py]."""

    shared_expert_intermediate_size: FfnWidth | None = None
    norm_topk_prob: bool = True
    partial_rotary_factor: Fraction | None = None
    full_attention_interval: NumLayers = 4
    linear_conv_kernel_dim: Annotated[int, Field(ge=1, le=64)] = 4
    linear_key_head_dim: Width = 128
    linear_value_head_dim: Width = 128
    linear_num_key_heads: Width = 16
    linear_num_value_heads: Width = 32

    default_fraction: ClassVar[float] = 0.25


def qwen2(config: QwenConfig, source: Source) -> ModelShape:
    """Queries, keys and values have a bias, the output has none: fixed in the modelling code."""
    return grouped(config, source, attention_bias=True, local_attention=_window(config, source))


def qwen3(config: QwenConfig, source: Source) -> ModelShape:
    """Norms of queries and keys; heads of 128 channels where the file says nothing."""
    return grouped(
        config,
        source,
        kv_channels=config.head_dim or 128,
        qk_layernorm=True,
        attention_bias=config.attention_bias,
        local_attention=_window(config, source),
        constants=constants(config, source, attention_output_bias=config.attention_bias),
    )


def qwen2_moe(config: Qwen2MoeConfig, source: Source) -> ModelShape:
    """A shared expert whose output is gated by a sigmoid of the token."""
    moe = _moe(config)
    if moe is not None:
        moe = with_shared_experts(moe, given(config, "shared_expert_intermediate_size"))
    return grouped(
        config,
        source,
        attention_bias=config.qkv_bias,
        moe=moe,
        local_attention=_window(config, source),
        constants=_moe_constants(config, source, moe, gate=True),
    )


def qwen3_moe(config: QwenMoeConfig, source: Source) -> ModelShape:
    """Norms of queries and keys; no shared expert."""
    moe = _moe(config)
    return grouped(
        config,
        source,
        qk_layernorm=True,
        attention_bias=config.attention_bias,
        moe=moe,
        local_attention=_window(config, source),
        constants=_moe_constants(config, source, moe, attention_output_bias=config.attention_bias),
    )


def qwen3_next(config: Qwen3NextConfig, source: Source) -> ModelShape:
    """Each fourth layer attends, with an output gate; the others are gated delta nets [modeling_qwen3_next.py]."""
    moe = _moe(config)
    if moe is not None:
        moe = with_shared_experts(moe, given(config, "shared_expert_intermediate_size"))
    interval, num_layers = config.full_attention_interval, config.num_hidden_layers
    if config.layer_types is not None:
        every = full_attention_every("layer_types", of_type(config.layer_types, "linear_attention"), num_layers)
    else:
        every = full_attention_every(
            "full_attention_interval", [(index + 1) % interval != 0 for index in range(num_layers)], num_layers
        )
    local = None
    if every is not None:
        local = LocalAttention(
            "linear",
            full_attention_every=every,
            num_key_heads=config.linear_num_key_heads,
            num_value_heads=config.linear_num_value_heads,
            key_head_dim=config.linear_key_head_dim,
            value_head_dim=config.linear_value_head_dim,
            conv_kernel=config.linear_conv_kernel_dim,
        )
    return grouped(
        config,
        source,
        kv_channels=config.head_dim or 256,
        qk_layernorm=True,
        attention_bias=config.attention_bias,
        attention_output_gate=True,
        moe=moe,
        local_attention=local,
        constants=_moe_constants(
            config,
            source,
            moe,
            gate=True,
            fraction=config.partial_rotary_factor,
            norm_zero_centered=True,
            attention_output_bias=config.attention_bias,
        ),
    )


def _moe_constants(
    config: QwenMoeConfig, source: Source, moe: MoeShape | None, *, gate: bool = False, **more: Any
) -> ModelConstants:
    if moe is not None:
        more["router"] = softmax_router(normalize=config.norm_topk_prob, gate=gate)
    return constants(config, source, **more)


def _moe(config: QwenMoeConfig) -> MoeShape | None:
    num_layers = config.num_hidden_layers
    for index in config.mlp_only_layers:
        if index >= num_layers:
            raise InputError(
                Sentence("mlp_only_layers: {} is not allowed; give layer numbers from 0 to {}.", index, num_layers - 1)
            )
    step, dense_layers = config.decoder_sparse_step, frozenset(config.mlp_only_layers)
    pattern = tuple(index not in dense_layers and (index + 1) % step == 0 for index in range(num_layers))
    number = num_experts(config, ("num_experts", "num_local_experts"))
    if not number or not any(pattern):
        return None
    first, frequency = moe_period("mlp_only_layers", pattern)
    return routed_experts(config, number, num_leading_dense_layers=first, moe_layer_freq=frequency)


def _window(config: QwenConfig, source: Source) -> LocalAttention | None:
    """The library reads a window only where ``use_sliding_window`` says so."""
    num_layers = config.num_hidden_layers
    used = config.use_sliding_window and "sliding_window" not in source.nulls
    if config.layer_types is not None:
        local = of_type(config.layer_types, "sliding_attention")
        if any(local) and not used:
            raise InputError(
                Sentence("use_sliding_window: false is not allowed; layer_types has layers with a window, give true.")
            )
        name = "layer_types"
    else:
        start = DEFAULT_WINDOW_START if config.max_window_layers is None else config.max_window_layers
        local = [used and index >= start for index in range(num_layers)]
        name = "max_window_layers"
    filled = config if config.sliding_window is not None else config.model_copy(update={"sliding_window": DEFAULT_WINDOW})
    return windowed(filled, name, local)
