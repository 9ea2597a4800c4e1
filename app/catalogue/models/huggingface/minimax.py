"""MiniMax-Text-01 and M1 with lightning attention, and M2 without."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from app.catalogue.models.huggingface.config import Config, Source, channels, given, only
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import (
    LayerTypes,
    full_attention_every,
    num_experts,
    of_type,
    sigmoid_router,
    softmax_router,
)
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.workload import LocalAttention, ModelShape, MoeShape
from documents.bounds import MAX_LAYERS, Experts, FfnWidth, MtpLayers, NullableWidth, Width
from documents.errors import InputError
from documents.sentences import Sentence

LIGHTNING, SOFTMAX = 0, 1  # values of attn_type_list
AttentionTypes = Annotated[list[Literal[0, 1]], Field(max_length=MAX_LAYERS)]


class _MiniMaxConfig(Config):
    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    num_experts_per_tok: Experts
    rotary_dim: Width | None = None
    attn_type_list: AttentionTypes | None = None
    shared_intermediate_size: NullableWidth | list[NullableWidth] = 0


class MiniMaxConfig(_MiniMaxConfig):
    """[configuration_minimax.py], and the publisher's own with other names for the same."""

    rms_norm_eps: Fraction = 1e-5
    layer_types: LayerTypes | None = None
    postnorm: bool = True
    layernorm_full_attention_alpha: Positive = 1.0
    layernorm_full_attention_beta: Positive = 1.0
    layernorm_linear_attention_alpha: Positive = 1.0
    layernorm_linear_attention_beta: Positive = 1.0
    layernorm_mlp_alpha: Positive = 1.0
    layernorm_mlp_beta: Positive = 1.0
    full_attn_alpha_factor: Positive | None = None
    full_attn_beta_factor: Positive | None = None
    linear_attn_alpha_factor: Positive | None = None
    linear_attn_beta_factor: Positive | None = None
    mlp_alpha_factor: Positive | None = None
    mlp_beta_factor: Positive | None = None

    default_theta: ClassVar[float] = 1_000_000.0
    default_positions: ClassVar[int] = 131_072


class MiniMaxM2Config(_MiniMaxConfig):
    """[configuration_minimax_m2.py], and switches of the publisher's own code for parts that the library always has."""

    partial_rotary_factor: Fraction | None = None
    use_qk_norm: bool = True
    qk_norm_type: Literal["per_layer"] = "per_layer"
    use_routing_bias: bool = True
    scoring_func: Literal["sigmoid"] = "sigmoid"
    use_mtp: bool = True
    num_mtp_modules: MtpLayers = 0
    mtp_transformer_layers: MtpLayers = 1
    layernorm_full_attention_beta: Positive = 1.0
    layernorm_linear_attention_beta: Positive = 1.0
    layernorm_mlp_beta: Positive = 1.0

    default_theta: ClassVar[float] = 5_000_000.0
    default_positions: ClassVar[int] = 196_608


def minimax(config: MiniMaxConfig, source: Source) -> ModelShape:
    """Each eighth layer attends, the others are recurrences with a fixed decay [modeling_minimax.py]."""
    if config.layer_types is not None:
        name, local = "layer_types", of_type(config.layer_types, "linear_attention")
    elif config.attn_type_list is not None:
        name, local = "attn_type_list", [kind == LIGHTNING for kind in config.attn_type_list]
    else:
        raise InputError(
            Sentence("layer_types: missing; give linear_attention or full_attention for each layer, or attn_type_list.")
        )
    every = full_attention_every(name, local, config.num_hidden_layers)
    heads, width = config.num_attention_heads, channels(config)
    linear = None
    if every is not None:
        linear = LocalAttention(
            "linear",
            full_attention_every=every,
            num_key_heads=heads,
            num_value_heads=heads,
            key_head_dim=width,
            value_head_dim=width,
        )
    return grouped(
        config,
        source,
        moe=_moe(config),
        local_attention=linear,
        constants=constants(
            config,
            source,
            fraction=_rotated(config, width),
            post_norm_residual=_residual(config),
            router=softmax_router(normalize=True),
        ),
    )


def minimax_m2(config: MiniMaxM2Config, source: Source) -> ModelShape:
    """Full attention everywhere; the norms of queries and keys are over all heads [modeling_minimax_m2.py]."""
    if config.attn_type_list is not None:
        types = config.attn_type_list
        only("attn_type_list", sorted(set(types)), [SOFTMAX], Sentence("each layer attends to everything"))
    only("mtp_transformer_layers", config.mtp_transformer_layers, 1, Sentence("a module of multi-token prediction has one layer"))
    for name in ("full_attention", "linear_attention", "mlp"):
        only(
            f"layernorm_{name}_beta",
            getattr(config, f"layernorm_{name}_beta"),
            1.0,
            Sentence("a block's output is added as it is"),
        )
    width = config.head_dim or 128
    fraction = config.partial_rotary_factor or _rotated(config, width)
    return grouped(
        config,
        source,
        kv_channels=width,
        qk_layernorm=config.use_qk_norm,
        mtp_num_layers=config.num_mtp_modules if config.use_mtp else 0,
        moe=_moe(config),
        constants=constants(
            config,
            source,
            fraction=fraction,
            qk_norm_over_heads=config.use_qk_norm,
            router=sigmoid_router(expert_bias=config.use_routing_bias),
        ),
    )


def _rotated(config: _MiniMaxConfig, width: int) -> float | None:
    if config.rotary_dim is None:
        return None
    if config.rotary_dim > width:
        raise InputError(
            Sentence("rotary_dim: {} is not allowed; give at most the {} channels of a head.", config.rotary_dim, width)
        )
    return config.rotary_dim / width


def _residual(config: MiniMaxConfig) -> float | None:
    """Factor on the normed input of every block before its output is added. Raises ``InputError`` for other residual sums."""
    names = ("full_attention", "linear_attention", "mlp")
    newer = {"full_attention": "full_attn", "linear_attention": "linear_attn", "mlp": "mlp"}
    weights = {}
    for name in names:
        alpha, beta = f"{newer[name]}_alpha_factor", f"{newer[name]}_beta_factor"
        weights[name] = getattr(config, alpha) or getattr(config, f"layernorm_{name}_alpha")
        own = getattr(config, beta) or getattr(config, f"layernorm_{name}_beta")
        only(f"layernorm_{name}_beta", own, 1.0, Sentence("a block's output is added as it is"))
        first = weights["full_attention"]
        only(f"layernorm_{name}_alpha", weights[name], first, Sentence("all blocks have one weight"))
    if not config.postnorm:
        only(
            "layernorm_full_attention_alpha",
            weights["full_attention"],
            1.0,
            Sentence("without postnorm the residual is the input"),
        )
        return None
    return float(weights["full_attention"])


def _moe(config: _MiniMaxConfig) -> MoeShape:
    shared = config.shared_intermediate_size
    widths = shared if isinstance(shared, list) else [shared]
    only("shared_intermediate_size", any(widths), False, Sentence("shared experts of this family are not modelled"))
    width: FfnWidth = config.intermediate_size
    return MoeShape(
        num_experts=num_experts(config, ("num_local_experts", "num_experts")),
        top_k=given(config, "num_experts_per_tok"),
        expert_ffn_hidden_size=width,
    )
