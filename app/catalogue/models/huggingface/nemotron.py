"""Nemotron-H, Nemotron Nano 2 and 3: layers of one block each, most of them state spaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from app.catalogue.models.huggingface.config import ACTIVATIONS, Activation, Config, NoBias, Source, given, only
from app.catalogue.models.huggingface.grouped import constants, grouped
from app.catalogue.models.huggingface.layers import routed_experts, sigmoid_router
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.model_constants import RouterConstants
from cost_models.shapes.workload import LocalAttention, ModelShape, MoeShape
from documents.bounds import MAX_LAYERS, Experts, FfnWidth, MtpLayers, SharedExperts, SharedWidth, Width
from documents.errors import InputError
from documents.sentences import Sentence

BLOCKS = {  # symbols of layers by the library's names, and by its older ones [modeling_nemotron_h.py]
    "linear_attention": "M",
    "mamba": "M",
    "full_attention": "*",
    "attention": "*",
    "mlp": "-",
    "moe": "E",
}
HEAD_DIM = 128  # of attention, where a file states none [configuration_nemotron_h.py]
Block = Literal["linear_attention", "mamba", "full_attention", "attention", "mlp", "moe"]


class NemotronHConfig(Config):
    """[configuration_nemotron_h.py]."""

    hybrid_override_pattern: Annotated[str, Field(max_length=MAX_LAYERS)] | None = None
    layers_block_type: Annotated[list[Block], Field(max_length=MAX_LAYERS)] | None = None
    attention_head_dim: Width | None = None  # head_dim in older files
    layer_norm_epsilon: Fraction = 1e-5
    mlp_hidden_act: Activation = "relu2"
    attention_bias: NoBias = False
    mlp_bias: NoBias = False
    use_bias: NoBias = False
    mamba_proj_bias: NoBias = False
    use_conv_bias: bool = True
    residual_in_fp32: bool = False
    ssm_state_size: Width = 128
    mamba_num_heads: Width = 128
    mamba_head_dim: Width = 64
    mamba_hidden_act: Literal["silu"] = "silu"
    n_groups: Width = 8
    conv_kernel: Annotated[int, Field(ge=1, le=64)] = 4
    chunk_size: Annotated[int, Field(ge=1, le=65_536)] = 128
    n_routed_experts: SharedExperts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: FfnWidth | None = None
    moe_shared_expert_intermediate_size: SharedWidth | None = None
    n_shared_experts: SharedExperts | None = None
    n_group: Experts = 1
    topk_group: Experts = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 1.0
    moe_latent_size: Width | None = None
    num_nextn_predict_layers: MtpLayers | None = None
    mtp_hybrid_override_pattern: Annotated[str, Field(max_length=MAX_LAYERS)] | None = None
    mtp_layers_block_type: Annotated[list[Block], Field(max_length=MAX_LAYERS)] | None = None
    # Older names, which the library reads first.
    mamba_n_groups: Width | None = None
    mamba_d_conv: Annotated[int, Field(ge=1, le=64)] | None = None
    mamba_chunk_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    mamba_conv_bias: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _layers_are_counted(cls, value: object) -> object:
        """Files of newer releases of the library list their layers without ``num_hidden_layers``."""
        if not isinstance(value, dict) or value.get("num_hidden_layers") is not None:
            return value
        layers = value.get("layers_block_type") or value.get("hybrid_override_pattern")
        return {**value, "num_hidden_layers": len(layers)} if isinstance(layers, list | str) else value


def nemotron_h(config: NemotronHConfig, source: Source) -> ModelShape:
    """Attention sees no positions; experts and MLPs have no gate [modeling_nemotron_h.py]."""
    biased = Sentence("the convolution of a state space has a bias")
    only("use_conv_bias", config.use_conv_bias, True, biased)
    only("mamba_conv_bias", config.mamba_conv_bias is not False, True, biased)
    only("residual_in_fp32", config.residual_in_fp32, False, Sentence("the residual is in the precision of the weights"))
    only(
        "moe_latent_size",
        config.moe_latent_size or 0,
        0,
        Sentence("experts that work on latents, as in Nemotron 3 Super and Ultra, are not priced"),
    )
    only(
        "num_nextn_predict_layers",
        config.num_nextn_predict_layers or 0,
        0,
        Sentence("multi-token prediction is not priced beside layers of one block"),
    )
    pattern = _pattern(config)
    state_space = LocalAttention(
        "state_space",
        num_key_heads=config.mamba_n_groups or config.n_groups,
        num_value_heads=config.mamba_num_heads,
        key_head_dim=config.ssm_state_size,
        value_head_dim=config.mamba_head_dim,
        conv_kernel=config.mamba_d_conv or config.conv_kernel,
        chunk_size=config.mamba_chunk_size or config.chunk_size,
    )
    moe = _moe(config) if "E" in pattern else None
    router = RouterConstants()
    if moe is not None:
        router = sigmoid_router(normalize=config.norm_topk_prob, scale=config.routed_scaling_factor)
    return grouped(
        config,
        source,
        kv_channels=config.attention_head_dim or config.head_dim or HEAD_DIM,
        gated_linear_unit=False,
        no_positions=True,
        hybrid_layer_pattern=pattern,
        local_attention=state_space if "M" in pattern else None,
        moe=moe,
        constants=constants(
            config,
            source,
            activation=ACTIVATIONS[config.mlp_hidden_act],
            norm_epsilon=config.layer_norm_epsilon,
            rotary_base=None,
            router=router,
        ),
    )


def _pattern(config: NemotronHConfig) -> str:
    if config.layers_block_type is not None:
        return "".join(BLOCKS[block] for block in config.layers_block_type)
    if config.hybrid_override_pattern is None:
        raise InputError(Sentence("hybrid_override_pattern: missing; give one symbol for each layer, or layers_block_type."))
    return config.hybrid_override_pattern


def _moe(config: NemotronHConfig) -> MoeShape:
    """Routed experts, and shared ones whose width together has a field of its own."""
    routed = routed_experts(
        config,
        given(config, "n_routed_experts"),
        num_groups=config.n_group,
        group_topk=config.topk_group,
    )
    width = given(config, "moe_shared_expert_intermediate_size")
    return replace(routed, num_shared_experts=config.n_shared_experts or 1, shared_expert_ffn_hidden_size=width)
