"""DeepSeek-V2, V3 and V3.2, Kimi-K2 and GLM-5: latent attention, shared experts, in the newer ones an indexer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Source, given, nullable, only
from app.catalogue.models.huggingface.grouped import LatentConfig, constants, grouped, latent
from app.catalogue.models.huggingface.layers import moe_period, num_experts, routed_experts
from app.catalogue.models.shape import Fraction, Positive
from cost_models.shapes.model_constants import RouterConstants
from cost_models.shapes.workload import ModelShape, MoeShape, SparseAttention
from documents.bounds import (
    MAX_LAYERS,
    MAX_NAME,
    Experts,
    FfnWidth,
    Layers,
    MtpLayers,
    NumLayers,
    SeqLength,
    SharedExperts,
    Width,
)
from documents.sentences import Sentence

Kinds = Annotated[list[Annotated[str, Field(max_length=MAX_NAME)]], Field(max_length=MAX_LAYERS)]
TopkMethod = Literal["greedy", "group_limited_greedy", "noaux_tc"]


class DeepseekV2Config(LatentConfig, BiasedConfig):
    """[configuration_deepseek_v2.py]."""

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
    topk_method: TopkMethod | None = None
    scoring_func: Literal["softmax", "sigmoid"] = "softmax"
    norm_topk_prob: bool = False
    routed_scaling_factor: Positive = 1.0
    rope_interleave: bool = True

    default_positions: ClassVar[int] = 2048


class IndexedConfig(DeepseekV2Config):
    """An indexer that chooses the tokens that attention sees, one in each layer."""

    index_n_heads: Width
    index_head_dim: Width
    index_topk: SeqLength
    index_topk_freq: Annotated[int, Field(ge=0, le=MAX_LAYERS)] | None = None
    index_topk_pattern: Kinds | None = None
    indexer_types: Kinds | None = None
    layer_types: (
        Annotated[list[Literal["indexed_attention", "deepseek_sparse_attention"]], Field(max_length=MAX_LAYERS)] | None
    ) = None
    mlp_layer_types: Kinds | None = None


class DeepseekV3Config(DeepseekV2Config):
    """[configuration_deepseek_v3.py], and Kimi-K2's own, which is a copy of it."""

    scoring_func: Literal["softmax", "sigmoid"] = "sigmoid"
    norm_topk_prob: bool = True
    routed_scaling_factor: Positive = 2.5

    default_positions: ClassVar[int] = 4096


class DeepseekV32Config(IndexedConfig, DeepseekV3Config):
    """[configuration_deepseek_v32.py]."""


class GlmMoeDsaConfig(IndexedConfig, DeepseekV3Config):
    """GLM-5 [configuration_glm_moe_dsa.py]."""

    rms_norm_eps: Fraction = 1e-5

    default_positions: ClassVar[int] = 202_752


def indexed(config: IndexedConfig, source: Source) -> ModelShape:
    """DeepSeek-V3 whose layers have an indexer each; layers that share the choice of another are refused."""
    shared = Sentence("layers that reuse the tokens that another layer chose are not modelled")
    only("index_topk_freq", config.index_topk_freq or 1, 1, shared)
    for name, kind in (("indexer_types", "full"), ("index_topk_pattern", "F")):
        for index, of_layer in enumerate(getattr(config, name) or ()):
            only(f"{name}[{index}]", of_layer, kind, shared)
    for index, kind in enumerate(config.mlp_layer_types or ()):
        leads = index < config.first_k_dense_replace
        only(f"mlp_layer_types[{index}]", kind, "dense" if leads else "sparse", Sentence("first_k_dense_replace says otherwise"))
    sparse = SparseAttention(config.index_n_heads, config.index_head_dim, config.index_topk)
    return replace(deepseek(config, source), sparse_attention=sparse)


def deepseek(config: DeepseekV2Config, source: Source) -> ModelShape:
    """Latent attention; neighbours of its rotated channels are paired, as all frameworks do there."""
    only("rope_interleave", config.rope_interleave, True, Sentence("frameworks rotate neighbours in latent attention"))
    moe = _moe(config, source)
    router = RouterConstants() if moe is None else _router(config)
    return grouped(
        config,
        source,
        **latent(config, source),
        mtp_num_layers=config.num_nextn_predict_layers,
        attention_bias=config.attention_bias,
        moe=moe,
        constants=constants(config, source, attention_output_bias=config.attention_bias, router=router),
    )


def _router(config: DeepseekV2Config) -> RouterConstants:
    method = config.topk_method or ("noaux_tc" if isinstance(config, DeepseekV3Config) else "greedy")
    return RouterConstants(
        score_function=config.scoring_func,
        normalize_topk=config.norm_topk_prob,
        topk_scale=config.routed_scaling_factor,
        expert_bias=method == "noaux_tc",
    )


def _moe(config: DeepseekV2Config, source: Source) -> MoeShape | None:
    if "n_routed_experts" in source.nulls:
        return None  # null: a dense model in the publisher's own code
    number = num_experts(config, ("n_routed_experts", "num_local_experts", "num_experts"))
    leading, every = config.first_k_dense_replace, config.moe_layer_freq
    pattern = tuple(index >= leading and index % every == 0 for index in range(config.num_hidden_layers))
    if not any(pattern):
        return None
    first, frequency = moe_period("moe_layer_freq", pattern)
    num_shared = nullable(config, "n_shared_experts", source)
    if isinstance(config, DeepseekV3Config):
        nullable(config, "n_group", source)
    # "greedy" ignores the groups [modeling_deepseek_v2.py].
    grouped_experts = config.n_group is not None and config.topk_method != "greedy"
    return routed_experts(
        config,
        number,
        num_shared,
        num_leading_dense_layers=first,
        moe_layer_freq=frequency,
        num_groups=given(config, "n_group") if grouped_experts else 1,
        group_topk=given(config, "topk_group") if grouped_experts else 1,
    )
