"""openPangu: Embedded, Pro MoE and Ultra MoE, under the publisher's own names."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from app.catalogue.models.huggingface.config import Config, NoBias, Source
from app.catalogue.models.huggingface.grouped import LatentConfig, constants, grouped, latent
from app.catalogue.models.huggingface.layers import routed_experts, sigmoid_router, softmax_router, with_shared_experts
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.model_constants import RouterConstants
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.bounds import Experts, FfnWidth, Layers, MtpLayers, NullableWidth, SharedExperts, Width
from documents.sentences import Sentence

PRO_GROUPS = 8  # each token goes to one expert of each group (pangu_moe.py of vllm-ascend)


class PanguEmbeddedConfig(Config):
    """[configuration_openpangu_dense.py]."""

    rms_norm_eps: Fraction = 1e-5
    bias: bool = True

    default_theta: ClassVar[float] = 16_000_000.0
    default_positions: ClassVar[int] = 32_768


class PanguProMoeConfig(Config):
    """[configuration_pangu_moe.py]; no layer is dense."""

    intermediate_size: FfnWidth | None = None  # type: ignore[assignment]
    rms_norm_eps: Fraction = 1e-5
    num_experts: Experts
    num_experts_per_tok: Experts
    moe_intermediate_size: FfnWidth
    shared_expert_intermediate_size: FfnWidth
    mlp_bias: NoBias = False

    default_theta: ClassVar[float] = 16_000_000.0
    default_positions: ClassVar[int] = 131_072


class PanguUltraMoeConfig(LatentConfig):
    """[configuration_openpangu_moe.py]."""

    rms_norm_eps: Fraction = 1e-5
    q_lora_rank: NullableWidth = Field(alias="attention_q_lora_dim")
    kv_lora_rank: Width = Field(alias="attention_kv_lora_dim")
    qk_nope_head_dim: Width = Field(alias="attention_qk_dim")
    qk_rope_head_dim: NullableWidth = Field(alias="attention_qk_rope_dim")
    v_head_dim: Width = Field(alias="attention_v_dim")
    num_mtp_layers: MtpLayers = 0
    num_routed_experts: Experts
    num_experts_per_tok: Experts
    moe_intermediate_size: FfnWidth
    num_shared_experts: SharedExperts = 0
    num_dense_layers: Layers = 0
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 2.5
    router_enable_expert_bias: bool = False
    sandwich_norm: bool = True

    default_theta: ClassVar[float] = 25_600_000.0
    default_positions: ClassVar[int] = 131_072


def embedded(config: PanguEmbeddedConfig, source: Source) -> ModelShape:
    """Biases on all four projections of attention [modeling_openpangu_dense.py]."""
    model_constants = constants(config, source, attention_output_bias=config.bias)
    return grouped(config, source, attention_bias=config.bias, constants=model_constants)


def pro_moe(config: PanguProMoeConfig, source: Source) -> ModelShape:
    """Weights are a softmax over all experts, times a learned scale of each (pangu_moe.py of vllm-ascend)."""
    moe = MoeShape(
        num_experts=config.num_experts,
        top_k=config.num_experts_per_tok,
        expert_ffn_hidden_size=config.moe_intermediate_size,
        num_groups=PRO_GROUPS,
        group_topk=PRO_GROUPS,
    )
    moe = with_shared_experts(moe, config.shared_expert_intermediate_size)
    source.notes.append(Sentence("the router's learned scale of each expert is in no launch file."))
    return grouped(
        config,
        source,
        ffn_hidden_size=config.intermediate_size or config.shared_expert_intermediate_size,
        attention_bias=True,
        moe=moe,
        constants=constants(config, source, attention_output_bias=True, router=softmax_router(normalize=False)),
    )


def ultra_moe(config: PanguUltraMoeConfig, source: Source) -> ModelShape:
    """The architecture of DeepSeek-V3 with four norms a layer and without a router bias [modeling_openpangu_moe.py]."""
    moe, router = None, RouterConstants()
    if (leading := config.num_dense_layers) < config.num_hidden_layers:
        moe = routed_experts(config, config.num_routed_experts, config.num_shared_experts, num_leading_dense_layers=leading)
        router = sigmoid_router(
            normalize=config.norm_topk_prob,
            scale=config.routed_scaling_factor,
            expert_bias=config.router_enable_expert_bias,
        )
    return grouped(
        config,
        source,
        **latent(config, source),
        sandwich_norm=config.sandwich_norm,
        mtp_num_layers=config.num_mtp_layers,
        moe=moe,
        constants=constants(config, source, router=router),
    )
