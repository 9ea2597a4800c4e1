"""Gemma 2 and the text models of Gemma 3: windows, four norms a layer, scaled embeddings."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from app.catalogue.models.huggingface.config import ACTIVATIONS, Activation, BiasedConfig, Config, Source
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import LayerTypes, Window, of_type, windowed
from app.catalogue.models.shape import Positive
from cost_models.shapes.workload import ModelShape
from documents.bounds import NumLayers, Vocab, Width
from documents.errors import InputError, show
from documents.sentences import Sentence


class GemmaConfig(BiasedConfig):
    """Fields of Gemma 2 and Gemma 3. Dimensions have the library's defaults too, because Gemma 3's own files omit them."""

    head_dim: Width | None = 256
    tie_word_embeddings: bool = True
    hidden_act: Activation | None = None  # type: ignore[assignment]
    hidden_activation: Activation = "gelu_pytorch_tanh"
    query_pre_attn_scalar: Positive = 256.0
    attn_logit_softcapping: Positive | None = None
    final_logit_softcapping: Positive | None = None
    sliding_window: Window = 4096
    layer_types: LayerTypes | None = None
    use_bidirectional_attention: bool = False


class Gemma2Config(GemmaConfig):
    """[configuration_gemma2.py]."""

    attn_logit_softcapping: Positive | None = 50.0
    final_logit_softcapping: Positive | None = 30.0

    default_positions: ClassVar[int] = 8192


class Gemma3Config(GemmaConfig):
    """[configuration_gemma3.py, Gemma3TextConfig]."""

    num_attention_heads: Width = 8
    num_key_value_heads: Width | None = 4
    vocab_size: Vocab = 262_208
    sliding_window_pattern: NumLayers = 6
    rope_local_base_freq: Positive = 10_000.0

    default_theta: ClassVar[float] = 1_000_000.0
    default_positions: ClassVar[int] = 131_072


def gemma2(config: Gemma2Config, source: Source) -> ModelShape:
    """Each second layer looks at everything [modeling_gemma2.py]."""
    capped: dict[str, Any] = {
        "attention_softcap": None if "attn_logit_softcapping" in source.nulls else config.attn_logit_softcapping,
        "logit_softcap": None if "final_logit_softcapping" in source.nulls else config.final_logit_softcapping,
    }
    return _gemma(config, source, 2, **capped)


def gemma3(config: Gemma3Config, source: Source) -> ModelShape:
    """Each sixth layer looks at everything; the others rotate with another base [modeling_gemma3.py]."""
    capped: dict[str, Any] = {"attention_softcap": config.attn_logit_softcapping, "logit_softcap": config.final_logit_softcapping}
    local = config.rope_parameters.sliding_attention if config.rope_parameters is not None else None
    if local is None or local.rope_theta is None:
        capped["local_rotary_base"] = config.rope_local_base_freq
    return _gemma(config, source, config.sliding_window_pattern, qk_layernorm=True, **capped)


def _gemma(config: GemmaConfig, source: Source, period: int, *, qk_layernorm: bool = False, **more: Any) -> ModelShape:
    if config.use_bidirectional_attention:
        raise InputError(Sentence("use_bidirectional_attention: true is not allowed; attention is priced as causal, give false."))
    activation = ACTIVATIONS[config.hidden_activation]
    if config.hidden_act is not None and ACTIVATIONS[config.hidden_act] != activation:
        source.notes.append(Sentence("hidden_act: {} is not read; the library takes hidden_activation.", show(config.hidden_act)))
    if config.layer_types is not None:
        name, local = "layer_types", of_type(config.layer_types, "sliding_attention")
    else:
        name = "sliding_window_pattern"
        local = [(index + 1) % period != 0 for index in range(config.num_hidden_layers)]
    filled: Config = config.model_copy(update={"hidden_act": config.hidden_activation})
    return grouped(
        filled,
        source,
        qk_layernorm=qk_layernorm,
        sandwich_norm=True,
        attention_bias=config.attention_bias,
        local_attention=windowed(config, name, local),
        constants=constants(
            filled,
            source,
            norm_zero_centered=True,
            attention_scale=config.query_pre_attn_scalar**-0.5,
            embedding_scale=math.sqrt(config.hidden_size),
            attention_output_bias=config.attention_bias,
            **more,
        ),
    )
