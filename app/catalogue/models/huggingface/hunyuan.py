"""Hunyuan, dense and MoE."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from app.catalogue.models.huggingface.config import BiasedConfig, Source, channels, only
from app.catalogue.models.huggingface.grouped import constants, grouped, query_groups
from app.catalogue.models.huggingface.layers import softmax_router
from app.catalogue.models.shape import Fraction
from cost_models.shapes.workload import ModelShape, MoeShape
from documents.bounds import MAX_LAYERS, Experts, FfnWidth, Layers, SharedExperts, Width
from documents.errors import InputError, show
from documents.sentences import Sentence

ByLayer = Field(max_length=MAX_LAYERS)


class HunyuanConfig(BiasedConfig):
    """[configuration_hunyuan_v1_dense.py]."""

    rms_norm_eps: Fraction = 1e-5
    use_qk_norm: bool = True
    use_cla: bool = False
    use_mla: bool = False
    attention_head_dim: Width | None = None
    norm_type: Literal["rms", "hf_rms"] = "rms"
    use_rotary_pos_emb: Literal[True] = True

    default_positions: ClassVar[int] = 2048


class HunyuanMoeConfig(HunyuanConfig):
    """[configuration_hunyuan_v1_moe.py]; a field that lists values by layer must have the same value for all layers."""

    num_experts: Experts | Annotated[list[Experts], ByLayer]
    moe_topk: Experts | Annotated[list[Experts], ByLayer]
    moe_intermediate_size: FfnWidth | Annotated[list[FfnWidth], ByLayer] | None = None
    num_shared_expert: SharedExperts | Annotated[list[SharedExperts], ByLayer] = 1
    use_mixed_mlp_moe: bool = True
    moe_layer_num_skipped: Layers = 0
    norm_topk_prob: bool = True
    group_limited_greedy: bool = False
    moe_drop_tokens: bool = False


def hunyuan_dense(config: HunyuanConfig, source: Source) -> ModelShape:
    """Queries and keys pass a norm behind the rotation [modeling_hunyuan_v1_dense.py]."""
    return _hunyuan(config, source, {})


def hunyuan_moe(config: HunyuanMoeConfig, source: Source) -> ModelShape:
    """Each layer has routed experts and a shared one [modeling_hunyuan_v1_moe.py]."""
    only("group_limited_greedy", config.group_limited_greedy, False, Sentence("experts of this family are not in groups"))
    only("moe_drop_tokens", config.moe_drop_tokens, False, Sentence("no token is dropped here"))
    width = _uniform("moe_intermediate_size", config.moe_intermediate_size) or config.intermediate_size
    shared = (_uniform("num_shared_expert", config.num_shared_expert) or 0) if config.use_mixed_mlp_moe else 0
    skipped, num_layers = config.moe_layer_num_skipped, config.num_hidden_layers
    if skipped >= num_layers:
        raise InputError(Sentence("moe_layer_num_skipped: {} is not allowed; give less than the {} layers.", skipped, num_layers))
    moe = MoeShape(
        num_experts=_uniform("num_experts", config.num_experts) or 1,
        top_k=_uniform("moe_topk", config.moe_topk) or 1,
        expert_ffn_hidden_size=width,
        num_shared_experts=shared,
        shared_expert_ffn_hidden_size=shared * width,
        num_leading_dense_layers=skipped,
    )
    return _hunyuan(config, source, {"router": softmax_router(normalize=config.norm_topk_prob)}, moe=moe)


def _hunyuan(config: HunyuanConfig, source: Source, more: dict[str, Any], moe: MoeShape | None = None) -> ModelShape:
    only("use_cla", config.use_cla, False, Sentence("keys that layers share are not modelled"))
    only("use_mla", config.use_mla, False, Sentence("latent attention of this family is not modelled"))
    only(
        "attention_head_dim",
        config.attention_head_dim or channels(config),
        channels(config),
        Sentence("head_dim says another width"),
    )
    based, scaling = config, config.rope_scaling
    if scaling is not None and scaling.alpha is not None and (scaling.rope_type or scaling.type) == "dynamic":
        if scaling.factor not in (None, 1.0):
            raise InputError(Sentence("rope_scaling.factor: {} is not allowed; give 1.0 beside alpha.", show(scaling.factor)))
        width = channels(config)
        if width > 2:
            # Whatever the length, the base grows with alpha [modeling_hunyuan_v1_dense.py, HunYuanDenseV1RotaryEmbedding].
            theta = (config.rope_theta or config.default_theta) * scaling.alpha ** (width / (width - 2))
            based = config.model_copy(update={"rope_scaling": None, "rope_theta": theta})
    return grouped(
        config,
        source,
        num_query_groups=query_groups(config, source, absent_is_heads=True),
        qk_layernorm=config.use_qk_norm,
        attention_bias=config.attention_bias,
        moe=moe,
        constants=constants(based, source, attention_output_bias=config.attention_bias, **more),
    )


def _uniform(name: str, value: int | list[int] | None) -> int | None:
    if not isinstance(value, list):
        return value
    if len(set(value)) != 1:
        raise InputError(Sentence("{}: {} is not allowed; give one number for all layers.", name, show(value)))
    return value[0]
