"""GLM-4 in its three forms, and GLM-4.5."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Config, NoBias, Source, channels, nullable, only
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import num_experts, routed_experts, sigmoid_router
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.model_constants import RouterConstants
from cost_models.shapes.workload import ModelShape
from documents.bounds import Experts, FfnWidth, Layers, MtpLayers, NumLayers, SeqLength, SharedExperts, Vocab, Width
from documents.sentences import Sentence


class ChatGlmConfig(Config):
    """Fields of the publisher's own code [configuration_chatglm.py]. Half of each head is rotated, in interleaved pairs."""

    num_hidden_layers: NumLayers = Field(alias="num_layers")
    head_dim: Width | None = Field(default=None, alias="kv_channels")
    intermediate_size: FfnWidth = Field(alias="ffn_hidden_size")
    vocab_size: Vocab = Field(alias="padded_vocab_size")
    rms_norm_eps: Fraction = Field(default=1e-5, alias="layernorm_epsilon")
    max_position_embeddings: SeqLength | None = Field(default=None, alias="seq_length")
    multi_query_attention: bool = False
    multi_query_group_num: Width = 1
    add_qkv_bias: bool = False
    add_bias_linear: NoBias = False
    rmsnorm: bool = True
    post_layer_norm: bool = True
    apply_residual_connection_post_layernorm: bool = False
    rope_ratio: Positive = 1.0

    default_fraction: ClassVar[float] = 0.5


class GlmConfig(BiasedConfig):
    """[configuration_glm.py, configuration_glm4.py]."""

    head_dim: Width | None = 128
    partial_rotary_factor: Fraction | None = None
    rms_norm_eps: Fraction = 1.5625e-7

    default_fraction: ClassVar[float] = 0.5
    default_positions: ClassVar[int] = 131_072


class Glm4MoeConfig(BiasedConfig):
    """[configuration_glm4_moe.py]."""

    partial_rotary_factor: Fraction | None = None
    rms_norm_eps: Fraction = 1e-5
    use_qk_norm: bool = False
    num_nextn_predict_layers: MtpLayers = 0
    n_routed_experts: Experts | None = None
    num_experts: Experts | None = None
    num_local_experts: Experts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: FfnWidth | None = None
    n_shared_experts: SharedExperts | None = None
    first_k_dense_replace: Layers = 0
    n_group: Experts = 1
    topk_group: Experts = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 1.0
    scoring_func: Literal["sigmoid"] = "sigmoid"
    topk_method: Literal["noaux_tc"] = "noaux_tc"

    default_fraction: ClassVar[float] = 0.5
    default_positions: ClassVar[int] = 131_072


def chatglm(config: ChatGlmConfig, source: Source) -> ModelShape:
    """The base of rotation grows with ``rope_ratio`` [modeling_chatglm.py]."""
    why = Sentence("frameworks have the norm before each block and one behind the last")
    only("apply_residual_connection_post_layernorm", config.apply_residual_connection_post_layernorm, False, why)
    only("post_layer_norm", config.post_layer_norm, True, why)
    heads = config.num_attention_heads
    return grouped(
        config,
        source,
        num_query_groups=config.multi_query_group_num if config.multi_query_attention else heads,
        kv_channels=channels(config),
        attention_bias=config.add_qkv_bias,
        constants=constants(
            config,
            source,
            rotary_interleaved=True,
            rotary_base=config.default_theta * config.rope_ratio,
            normalization="rmsnorm" if config.rmsnorm else "layernorm",
        ),
    )


def glm(config: GlmConfig, source: Source) -> ModelShape:
    """The architecture of ChatGLM under the library's names [modeling_glm.py]."""
    model_constants = constants(config, source, fraction=config.partial_rotary_factor, rotary_interleaved=True)
    return grouped(config, source, attention_bias=config.attention_bias, constants=model_constants)


def glm4(config: GlmConfig, source: Source) -> ModelShape:
    """GLM with a further norm after attention and one after the MLP [modeling_glm4.py]."""
    model_constants = constants(config, source, fraction=config.partial_rotary_factor, rotary_interleaved=True)
    return grouped(config, source, attention_bias=config.attention_bias, sandwich_norm=True, constants=model_constants)


def glm4_moe(config: Glm4MoeConfig, source: Source) -> ModelShape:
    """Half of a head is rotated, in halves; the output projection has no bias [modeling_glm4_moe.py]."""
    moe, router = None, RouterConstants()
    if config.first_k_dense_replace < config.num_hidden_layers:
        moe = routed_experts(
            config,
            num_experts(config, ("n_routed_experts", "num_experts", "num_local_experts")),
            nullable(config, "n_shared_experts", source),
            num_leading_dense_layers=config.first_k_dense_replace,
            num_groups=config.n_group,
            group_topk=config.topk_group,
        )
        router = sigmoid_router(normalize=config.norm_topk_prob, scale=config.routed_scaling_factor)
    return grouped(
        config,
        source,
        qk_layernorm=config.use_qk_norm,
        attention_bias=config.attention_bias,
        mtp_num_layers=config.num_nextn_predict_layers,
        moe=moe,
        constants=constants(config, source, fraction=config.partial_rotary_factor, router=router),
    )
