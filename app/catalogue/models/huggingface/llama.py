"""Llama and its kin: Mistral, Mixtral, InternLM, Baichuan."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Config, NoBias, Source, only
from app.catalogue.models.huggingface.grouped import constants, grouped, query_groups
from app.catalogue.models.huggingface.layers import LayerTypes, Window, num_experts, of_type, softmax_router, windowed
from app.catalogue.models.shape import Fraction
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.bounds import Experts, SeqLength
from documents.errors import InputError
from documents.sentences import Sentence

BAICHUAN_2_VOCAB = 125_696  # the second generation of Baichuan normalises the rows of the output head


class LlamaConfig(BiasedConfig):
    """[configuration_llama.py]."""

    default_positions: ClassVar[int] = 2048


class MistralConfig(Config):
    """[configuration_mistral.py]; a window of null, or none, is none: the library's default of 4,096 is of one release."""

    sliding_window: Window | None = None
    layer_types: LayerTypes | None = None

    default_positions: ClassVar[int] = 131_072


class MixtralConfig(MistralConfig):
    """[configuration_mixtral.py]."""

    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    num_experts_per_tok: Experts

    rms_norm_eps: Fraction = 1e-5
    default_theta: ClassVar[float] = 1_000_000.0


class InternLmConfig(LlamaConfig):
    """Fields of the publisher's own code [configuration_internlm.py]; the next two classes are from such code too."""

    attention_bias: bool = Field(default=True, alias="bias")


class InternLm2Config(Config):
    """[configuration_internlm2.py]."""

    bias: NoBias = False

    default_positions: ClassVar[int] = 2048


class InternLm3Config(InternLm2Config):
    """[configuration_internlm3.py]."""

    qkv_bias: bool = False

    default_positions: ClassVar[int] = 32_768


class BaichuanConfig(Config):
    """[configuration_baichuan.py]; models with a bias on scores in place of positions name no ``max_position_embeddings``."""

    model_max_length: SeqLength | None = None


def llama(config: LlamaConfig, source: Source) -> ModelShape:
    """Attention biases, where there are any, are the output's too."""
    return grouped(
        config,
        source,
        num_query_groups=query_groups(config, source, absent_is_heads=True),
        attention_bias=config.attention_bias,
        constants=constants(config, source, attention_output_bias=config.attention_bias),
    )


def mistral(config: MistralConfig, source: Source) -> ModelShape:
    """Every layer has the window, where there is one."""
    types = config.layer_types
    if types is not None:
        local = windowed(config, "layer_types", of_type(types, "sliding_attention"))
    else:
        local = windowed(config, "sliding_window", [config.sliding_window is not None] * config.num_hidden_layers)
    return grouped(config, source, local_attention=local)


def mixtral(config: MixtralConfig, source: Source) -> ModelShape:
    """Each layer has experts in place of its MLP; the weights of the chosen ones add up to one [modeling_mixtral.py]."""
    moe = MoeShape(
        num_experts=num_experts(config, ("num_local_experts", "num_experts")),
        top_k=config.num_experts_per_tok,
        expert_ffn_hidden_size=config.intermediate_size,
    )
    local = windowed(config, "sliding_window", [config.sliding_window is not None] * config.num_hidden_layers)
    model_constants = constants(config, source, router=softmax_router(normalize=True))
    return grouped(config, source, moe=moe, local_attention=local, constants=model_constants)


def internlm2(config: InternLm2Config, source: Source) -> ModelShape:
    """Grouped-query attention without biases."""
    return grouped(config, source, num_query_groups=query_groups(config, source, absent_is_heads=True))


def internlm3(config: InternLm3Config, source: Source) -> ModelShape:
    """A bias on queries, keys and values of its own."""
    return grouped(config, source, attention_bias=config.qkv_bias)


def baichuan(config: BaichuanConfig, source: Source) -> ModelShape:
    """7B rotates, 13B has a bias on attention scores [modeling_baichuan.py of both]."""
    only(
        "num_key_value_heads",
        config.num_key_value_heads or config.num_attention_heads,
        config.num_attention_heads,
        Sentence("every head has its own keys"),
    )
    alibi = config.max_position_embeddings is None
    if alibi and config.model_max_length is None:
        raise InputError(
            Sentence("model_max_length: missing; give an integer, or max_position_embeddings for a model with rotary positions.")
        )
    if config.vocab_size == BAICHUAN_2_VOCAB:
        source.notes.append(
            Sentence("Baichuan 2 normalises the rows of its output head; that is priced as a plain head and in no launch file.")
        )
    more = {"rotary_base": None, "max_position_embeddings": config.model_max_length} if alibi else {}
    return grouped(
        config,
        source,
        num_query_groups=config.num_attention_heads,
        alibi=alibi,
        constants=constants(config, source, **more),
    )
