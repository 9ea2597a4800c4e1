"""Families with Llama's layers under other names: Phi-3, OLMo 2, SmolLM3, Seed-OSS, MiMo."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Source
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import Window, of_type, windowed
from app.catalogue.models.huggingface.qwen import QwenConfig, qwen2
from app.catalogue.models.shape import Fraction
from cost_models.shapes.workload import ModelShape
from documents.bounds import MAX_LAYERS, Layers, NumLayers, SeqLength
from documents.errors import InputError
from documents.sentences import Sentence


class Phi3Config(BiasedConfig):
    """[configuration_phi3.py]; queries, keys and values are one matrix there, and so are both inputs of the MLP."""

    sliding_window: Window | None = None
    partial_rotary_factor: Fraction | None = None
    original_max_position_embeddings: SeqLength | None = None

    rms_norm_eps: Fraction = 1e-5
    default_positions: ClassVar[int] = 4096


class Olmo2Config(BiasedConfig):
    """[configuration_olmo2.py]."""

    rms_norm_eps: Fraction = 1e-5
    default_positions: ClassVar[int] = 2048


class SmolLm3Config(QwenConfig):
    """[configuration_smollm3.py]; 0 in ``no_rope_layers`` is a layer without positions."""

    tie_word_embeddings: bool = True
    no_rope_layers: Annotated[list[Layers], Field(max_length=MAX_LAYERS)] | None = None
    no_rope_layer_interval: NumLayers = 4

    default_theta: ClassVar[float] = 2_000_000.0


class SeedOssConfig(BiasedConfig):
    """[configuration_seed_oss.py]."""

    attention_bias: bool = True
    attention_out_bias: bool = False

    default_positions: ClassVar[int] = 524_288


class MiMoConfig(QwenConfig):
    """Fields of the publisher's own code [configuration_mimo.py]."""

    num_nextn_predict_layers: Layers = 0


def phi3(config: Phi3Config, source: Source) -> ModelShape:
    """Every layer has the window, where there is one."""
    return grouped(
        config,
        source,
        attention_bias=config.attention_bias,
        local_attention=windowed(config, "sliding_window", [config.sliding_window is not None] * config.num_hidden_layers),
        constants=constants(config, source, fraction=config.partial_rotary_factor, attention_output_bias=config.attention_bias),
    )


def olmo2(config: Olmo2Config, source: Source) -> ModelShape:
    """Norms of queries and keys over all heads; both norms of a layer stand behind its parts [modeling_olmo2.py]."""
    source.notes.append(
        Sentence("norms stand behind attention and MLP in place of in front; that costs the same and is in no launch file.")
    )
    return grouped(
        config,
        source,
        qk_layernorm=True,
        attention_bias=config.attention_bias,
        constants=constants(config, source, attention_output_bias=config.attention_bias, qk_norm_over_heads=True),
    )


def smollm3(config: SmolLm3Config, source: Source) -> ModelShape:
    """Some layers have no positions, which costs a kernel less."""
    layers = config.num_hidden_layers
    rotated = config.no_rope_layers or [int((at + 1) % config.no_rope_layer_interval != 0) for at in range(layers)]
    if len(rotated) != layers:
        raise InputError(Sentence("no_rope_layers: holds {} entries; give one for each of {} layers.", len(rotated), layers))
    plain = sum(not entry for entry in rotated)
    if plain:
        source.notes.append(
            Sentence("{} layers have no positions; they are priced with rotary ones, and no launch file has them.", plain)
        )
    local = None
    if config.use_sliding_window and config.layer_types is not None:
        local = windowed(config, "layer_types", of_type(config.layer_types, "sliding_attention"))
    return grouped(
        config,
        source,
        attention_bias=config.attention_bias,
        local_attention=local,
        constants=constants(config, source, attention_output_bias=config.attention_bias),
    )


def seed_oss(config: SeedOssConfig, source: Source) -> ModelShape:
    """Heads of 128 channels where the file says nothing; the output's bias is apart from that of the others."""
    return grouped(
        config,
        source,
        kv_channels=config.head_dim or 128,
        attention_bias=config.attention_bias,
        constants=constants(config, source, attention_output_bias=config.attention_out_bias),
    )


def mimo(config: MiMoConfig, source: Source) -> ModelShape:
    """Qwen2's layers, with modules that predict further tokens."""
    return replace(qwen2(config, source), mtp_num_layers=config.num_nextn_predict_layers)
