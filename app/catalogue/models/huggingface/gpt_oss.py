"""gpt-oss: windows in each second layer, sinks, experts with biases."""

from __future__ import annotations

from typing import ClassVar

from app.catalogue.models.huggingface.config import BiasedConfig, Rope, Source
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import LayerTypes, Window, num_experts, of_type, softmax_router, windowed
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.bounds import Experts, Width
from documents.errors import InputError, show
from documents.sentences import Sentence

SWISH_GAIN = 1.702  # gain of the sigmoid, as in the quick GELU


class GptOssConfig(BiasedConfig):
    """[configuration_gpt_oss.py]."""

    head_dim: Width | None = 64
    rms_norm_eps: Fraction = 1e-5
    attention_bias: bool = True
    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    num_experts_per_tok: Experts
    experts_per_token: Experts | None = None
    sliding_window: Window = 128
    layer_types: LayerTypes | None = None
    swiglu_alpha: Positive = SWISH_GAIN
    swiglu_limit: Positive = 7.0

    default_theta: ClassVar[float] = 150_000.0
    default_positions: ClassVar[int] = 131_072


DEFAULT_ROPE = Rope(
    rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=4096
)


def gpt_oss(config: GptOssConfig, source: Source) -> ModelShape:
    """The gate is clamped, and 1 is added to the gated branch [modeling_gpt_oss.py]."""
    if config.experts_per_token not in (None, config.num_experts_per_tok):
        raise InputError(
            Sentence(
                "experts_per_token: {} is not allowed; num_experts_per_tok says {}.",
                config.experts_per_token,
                config.num_experts_per_tok,
            )
        )
    if config.swiglu_alpha != SWISH_GAIN:
        raise InputError(Sentence("swiglu_alpha: {} is not allowed; give {}.", show(config.swiglu_alpha), SWISH_GAIN))
    if config.layer_types is not None:
        local = of_type(config.layer_types, "sliding_attention")
    else:
        local = [(index + 1) % 2 != 0 for index in range(config.num_hidden_layers)]
    moe = MoeShape(
        num_experts=num_experts(config, ("num_local_experts", "num_experts")),
        top_k=config.num_experts_per_tok,
        expert_ffn_hidden_size=config.intermediate_size,
        expert_biases=True,
    )
    stretched = config
    if config.rope_scaling is None and config.rope_parameters is None:
        stretched = config.model_copy(update={"rope_scaling": DEFAULT_ROPE})
    return grouped(
        config,
        source,
        attention_bias=config.attention_bias,
        moe=moe,
        local_attention=windowed(config, "layer_types", local),
        constants=constants(
            stretched,
            source,
            activation="quick_gelu",
            activation_clamp=config.swiglu_limit,
            glu_linear_offset=1.0,
            attention_sinks=True,
            attention_output_bias=config.attention_bias,
            router=softmax_router(normalize=True),
        ),
    )
