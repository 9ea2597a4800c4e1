"""``ModelShape`` from a mapping with the product's own field names, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import LAYER_SYMBOLS, LocalAttention, MlaShape, ModelShape, MoeShape, SparseAttention
from documents.bounds import (
    MAX_LAYERS,
    MAX_NAME,
    MAX_PARAMETERS,
    MAX_TOKENS,
    CapacityFactor,
    Experts,
    FfnWidth,
    Layers,
    Line,
    MtpLayers,
    NullableWidth,
    NumLayers,
    SeqLength,
    SharedExperts,
    SharedWidth,
    Vocab,
    Width,
)
from documents.checking import Section, check
from documents.errors import InputError, show
from documents.sentences import Sentence

OrUnset = Annotated[int, Field(ge=-1, le=MAX_LAYERS)]  # run records write Megatron's -1 for "unset"


def _no_noop_layers(given: int) -> int:
    if given:
        raise ValueError(
            Sentence("{} is not allowed; no-op layers belong to a plan's layer layout; give real layers only.", show(given))
        )
    return given


class MlaSection(Section):
    """Multi-head latent attention."""

    q_lora_rank: NullableWidth = 0
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: NullableWidth
    v_head_dim: Width


class MoeSection(Section):
    """Experts."""

    num_experts: Experts
    top_k: Experts
    expert_ffn_hidden_size: FfnWidth
    num_shared_experts: SharedExperts = 0
    shared_expert_ffn_hidden_size: SharedWidth | None = None
    num_leading_dense_layers: OrUnset = 0
    moe_layer_freq: OrUnset = 1
    num_groups: Experts = 1
    group_topk: Experts | None = None
    capacity_factor: CapacityFactor | None = None
    expert_biases: bool = False


Positive = Annotated[float, Field(gt=0, le=1e12)]
Fraction = Annotated[float, Field(gt=0, le=1)]
YarnScale = Annotated[float, Field(ge=0, le=1e6)]


class LocalAttentionSection(Section):
    """Layers whose attention does not look at the whole sequence."""

    kind: Literal["window", "linear", "state_space"]
    full_attention_every: Layers = 0
    window: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 0
    num_key_heads: NullableWidth = 0
    num_value_heads: NullableWidth = 0
    key_head_dim: NullableWidth = 0
    value_head_dim: NullableWidth = 0
    conv_kernel: Annotated[int, Field(ge=0, le=64)] = 0
    chunk_size: Annotated[int, Field(ge=0, le=65_536)] = 0


class SparseAttentionSection(Section):
    """An indexer that chooses the tokens that latent attention sees."""

    num_index_heads: Width
    index_head_dim: Width
    top_k: SeqLength


class RopeScalingSection(Section):
    """Rotary positions stretched beyond the length that they were trained on."""

    kind: Literal["llama3", "yarn", "linear"]
    factor: Positive
    original_max_position_embeddings: SeqLength | None = None
    low_freq_factor: Positive | None = None
    high_freq_factor: Positive | None = None
    beta_fast: Positive | None = None
    beta_slow: Positive | None = None
    mscale: YarnScale | None = None
    mscale_all_dim: YarnScale | None = None
    truncate: bool | None = None


class RouterSection(Section):
    """Router settings: computation of expert weights from scores."""

    score_function: Literal["softmax", "sigmoid"] | None = None
    normalize_topk: bool | None = None
    topk_scale: Positive | None = None
    expert_bias: bool | None = None
    shared_expert_gate: bool = False


class ConstantsSection(Section):
    """Model constants that launch files need and no price depends on."""

    model_type: Annotated[str, Field(max_length=MAX_NAME)] = ""
    activation: Literal["silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "relu2"] | None = None
    activation_clamp: Positive | None = None
    glu_linear_offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    normalization: Literal["rmsnorm", "layernorm"] | None = None
    norm_epsilon: Fraction | None = None
    norm_zero_centered: bool = False
    qk_norm_over_heads: bool = False
    post_norm_residual: Positive | None = None
    rotary_base: Positive | None = None
    rotary_fraction: Fraction = 1.0
    rotary_interleaved: bool = False
    local_rotary_base: Positive | None = None
    rope_scaling: RopeScalingSection | None = None
    max_position_embeddings: SeqLength | None = None
    attention_output_bias: bool = False
    attention_scale: Positive | None = None
    attention_softcap: Positive | None = None
    logit_softcap: Positive | None = None
    embedding_scale: Positive | None = None
    attention_sinks: bool = False
    router: RouterSection = RouterSection()


class ModelSection(Section):
    """A model in a job."""

    name: Line = "inline"
    family: object = None
    num_layers: NumLayers
    num_noop_layers: Annotated[int, AfterValidator(_no_noop_layers)] = 0
    hidden_size: Width
    num_attention_heads: Width
    num_query_groups: Width | None = None
    kv_channels: Width | None = None
    ffn_hidden_size: FfnWidth | None = None
    gated_linear_unit: bool = True
    vocab_size: Vocab
    padded_vocab_size: Vocab | None = None
    tied_embeddings: bool = False
    mtp_num_layers: MtpLayers = 0
    sandwich_norm: bool = False
    qk_layernorm: bool = False
    attention_bias: bool = False
    learned_positions: bool = False
    alibi: bool = False
    no_positions: bool = False
    attention_output_gate: bool = False
    mla: MlaSection | None = None
    moe: MoeSection | None = None
    local_attention: LocalAttentionSection | None = None
    sparse_attention: SparseAttentionSection | None = None
    hybrid_layer_pattern: Annotated[str, Field(max_length=MAX_LAYERS)] = ""
    constants: ConstantsSection = ConstantsSection()


NOT_IN_A_SHAPE = ("family", "num_noop_layers", "padded_vocab_size")
MODEL_FIELDS, MLA_FIELDS, MOE_FIELDS = (tuple(section.model_fields) for section in (ModelSection, MlaSection, MoeSection))


def model_from_mapping(mapping: object, where: str = "model") -> ModelShape:
    """The shape that ``mapping`` describes; ``where`` names it in the ``InputError`` it may raise."""
    section = check(ModelSection, mapping, where)
    vocab_size, padded = section.vocab_size, section.padded_vocab_size
    if padded is not None and padded < vocab_size:
        raise InputError(Sentence("{}.padded_vocab_size: {} is below vocab_size {}.", where, padded, vocab_size))
    mla = None if section.mla is None else MlaShape(**dict(section.mla))
    moe = None if section.moe is None else _moe(section.moe, section.num_layers, f"{where}.moe")
    resolved = {
        "num_query_groups": section.num_query_groups or section.num_attention_heads,
        "kv_channels": _kv_channels(section, mla, where),
        "ffn_hidden_size": _ffn_hidden_size(section, moe, where),
        "vocab_size": padded or vocab_size,
        "mla": mla,
        "moe": moe,
        "local_attention": None if section.local_attention is None else LocalAttention(**dict(section.local_attention)),
        "sparse_attention": None if section.sparse_attention is None else SparseAttention(**dict(section.sparse_attention)),
        "constants": constants_from(section.constants),
    }
    model = ModelShape(**{**{name: value for name, value in section if name not in NOT_IN_A_SHAPE}, **resolved})
    check_shape(model, Sentence("{}.", where))
    return model


def model_to_mapping(model: ModelShape) -> dict[str, object]:
    """The inverse of ``model_from_mapping``: JSON-ready, every field explicit."""
    whole = asdict(model)
    mapping: dict[str, object] = {name: whole[name] for name in MODEL_FIELDS if name not in NOT_IN_A_SHAPE}
    for name, fields in (("mla", MLA_FIELDS), ("moe", MOE_FIELDS)):
        part = whole[name]
        mapping[name] = part and {field: part[field] for field in fields}
    return mapping


def constants_from(section: ConstantsSection) -> ModelConstants:
    """The constants that a checked section states."""
    values: dict[str, Any] = dict(section)
    scaling = section.rope_scaling
    values["rope_scaling"] = None if scaling is None else RopeScaling(**dict(scaling))
    values["router"] = RouterConstants(**dict(section.router))
    return ModelConstants(**values)


def check_shape(model: ModelShape, where: str) -> None:
    """Raises ``InputError`` if valid fields do not fit together; ``where`` is the prefix of a field."""
    heads, groups = model.num_attention_heads, model.num_query_groups
    if heads % groups:
        raise InputError(
            Sentence("{}num_query_groups: {} is not allowed; give a divisor of the {} attention heads.", where, groups, heads)
        )
    if model.moe is not None:
        _check_groups(model.moe, where)
    if model.hybrid_layer_pattern:
        _check_pattern(model, where)
    elif model.local_attention is not None and model.local_attention.is_state_space:
        raise InputError(
            Sentence("{}hybrid_layer_pattern: missing; local_attention of kind state_space needs one symbol a layer.", where)
        )
    if model.local_attention is not None:
        _check_local_attention(model.local_attention, model.num_layers, f"{where}local_attention.")
    if model.sparse_attention is not None:
        _check_sparse_attention(model.sparse_attention, model, f"{where}sparse_attention")
    if model.attention_output_gate and model.mla is not None:
        raise InputError(Sentence("{}attention_output_gate: true is not allowed with mla; give false.", where))
    total = num_parameters(model).total
    if total > MAX_PARAMETERS:
        raise InputError(
            Sentence(
                "{}num_layers: the dimensions give {:.3g} parameters; at most {:.0e} are allowed.", where, total, MAX_PARAMETERS
            )
        )


def _check_pattern(model: ModelShape, where: str) -> None:
    """Raises ``InputError`` if the layers of one block do not fit the rest of the model."""
    pattern, where = model.hybrid_layer_pattern, Sentence("{}hybrid_layer_pattern", where)
    for index, symbol in enumerate(pattern):
        if symbol not in LAYER_SYMBOLS:
            known = " ".join(LAYER_SYMBOLS)
            raise InputError(Sentence("{}[{}]: {!r} is not allowed; give one of {} for each layer.", where, index, symbol, known))
    if len(pattern) != model.num_layers:
        raise InputError(
            Sentence("{}: it has {} symbols; give one for each of the {} layers.", where, len(pattern), model.num_layers)
        )
    local, moe = model.local_attention, model.moe
    for symbol, name, given in (("M", "local_attention", local), ("E", "moe", moe)):
        if (symbol in pattern) != (given is not None):
            raise InputError(Sentence("{}: {} and layers {} need each other; give both or neither.", where, name, symbol))
    apart = {
        Sentence("a window"): local is not None and not local.is_linear,
        "full_attention_every": local is not None and local.full_attention_every != 0,
        "num_leading_dense_layers": moe is not None and moe.num_leading_dense_layers != 0,
        "moe_layer_freq": moe is not None and moe.moe_layer_freq != 1,
        "mtp_num_layers": model.mtp_num_layers != 0,
        "mla": model.mla is not None,
        "sandwich_norm": model.sandwich_norm,
    }
    for name, is_given in apart.items():
        if is_given:
            raise InputError(Sentence("{}: {} is not priced beside it; leave one of them out.", where, name))


WINDOW_FIELDS, LINEAR_FIELDS = ("window",), ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
STATE_SPACE_FIELDS = ("conv_kernel", "chunk_size")
FIELDS_OF_KIND = {  # fields that a kind needs, and fields that it has not
    "window": (WINDOW_FIELDS, (*LINEAR_FIELDS, *STATE_SPACE_FIELDS)),
    "linear": (LINEAR_FIELDS, (*WINDOW_FIELDS, "chunk_size")),
    "state_space": ((*LINEAR_FIELDS, *STATE_SPACE_FIELDS), WINDOW_FIELDS),
}


def _check_local_attention(local: LocalAttention, num_layers: int, where: str) -> None:
    needed, others = FIELDS_OF_KIND[local.kind]
    for name in needed:
        if not getattr(local, name):
            raise InputError(
                Sentence("{}{}: 0 is not allowed; local_attention of kind {} needs an integer above 0.", where, name, local.kind)
            )
    for name in others:
        if getattr(local, name):
            raise InputError(
                Sentence(
                    "{}{}: {} is not allowed; local_attention of kind {} has none.", where, name, getattr(local, name), local.kind
                )
            )
    if local.is_linear and local.num_value_heads % local.num_key_heads:
        raise InputError(
            Sentence(
                "{}num_value_heads: {} is not allowed; give a multiple of the {} key heads.",
                where,
                local.num_value_heads,
                local.num_key_heads,
            )
        )
    if local.full_attention_every == 1 or local.full_attention_every > num_layers:
        raise InputError(
            Sentence(
                "{}full_attention_every: {} is not allowed; give 0 (no layer) or an integer from 2 to the {} layers.",
                where,
                local.full_attention_every,
                num_layers,
            )
        )


def _check_sparse_attention(sparse: SparseAttention, model: ModelShape, where: str) -> None:
    mla, width = model.mla, sparse.index_head_dim
    if mla is None or not mla.q_lora_rank or model.local_attention is not None:
        raise InputError(
            Sentence("{}: needs mla with a q_lora_rank above 0, which its indexer projects, and no local_attention.", where)
        )
    if width < mla.qk_rope_head_dim:
        rotated = mla.qk_rope_head_dim
        raise InputError(
            Sentence("{}.index_head_dim: {} is not allowed; give at least the {} rotated channels.", where, width, rotated)
        )


def _check_groups(moe: MoeShape, where: str) -> None:
    experts, groups, chosen = moe.num_experts, moe.num_groups, moe.group_topk
    if experts % groups:
        raise InputError(Sentence("{}num_groups: {} is not allowed; give a divisor of the {} experts.", where, groups, experts))
    if chosen > groups:
        raise InputError(
            Sentence("{}group_topk: {} is not allowed; give an integer from 1 to the {} groups.", where, chosen, groups)
        )
    if moe.top_k > experts // groups * chosen:
        raise InputError(
            Sentence(
                "{}top_k: {} is not allowed; {} of {} groups hold {} experts.",
                where,
                moe.top_k,
                chosen,
                groups,
                experts // groups * chosen,
            )
        )


def _moe(section: MoeSection, num_layers: int, where: str) -> MoeShape:
    if section.num_leading_dense_layers >= num_layers:
        leading = section.num_leading_dense_layers
        raise InputError(
            Sentence("{}.num_leading_dense_layers: {} is not allowed; give less than the {} layers.", where, leading, num_layers)
        )
    if section.moe_layer_freq == 0 or section.moe_layer_freq > num_layers:
        raise InputError(
            Sentence(
                "{}.moe_layer_freq: {} is not allowed; give -1 (every layer) or an integer from 1 to {}.",
                where,
                section.moe_layer_freq,
                num_layers,
            )
        )
    shared = section.num_shared_experts * section.expert_ffn_hidden_size
    return MoeShape(
        num_experts=section.num_experts,
        top_k=section.top_k,
        expert_ffn_hidden_size=section.expert_ffn_hidden_size,
        num_shared_experts=section.num_shared_experts,
        shared_expert_ffn_hidden_size=(
            shared if section.shared_expert_ffn_hidden_size is None else section.shared_expert_ffn_hidden_size
        ),
        num_leading_dense_layers=max(section.num_leading_dense_layers, 0),
        moe_layer_freq=max(section.moe_layer_freq, 1),
        num_groups=section.num_groups,
        group_topk=section.group_topk or section.num_groups,
        capacity_factor=section.capacity_factor,
        expert_biases=section.expert_biases,
    )


def _kv_channels(section: ModelSection, mla: MlaShape | None, where: str) -> int:
    if section.kv_channels is not None:
        return section.kv_channels
    if mla is not None:
        return mla.qk_nope_head_dim + mla.qk_rope_head_dim
    return head_width(section.hidden_size, section.num_attention_heads, f"{where}.kv_channels")


def head_width(hidden_size: int, num_heads: int, field: str) -> int:
    """Channels of a head if ``field`` does not state them."""
    if hidden_size % num_heads:
        raise InputError(
            Sentence("{}: missing; hidden_size {} is no multiple of the {} attention heads.", field, hidden_size, num_heads)
        )
    return hidden_size // num_heads


def _ffn_hidden_size(section: ModelSection, moe: MoeShape | None, where: str) -> int:
    if section.ffn_hidden_size is not None:
        return section.ffn_hidden_size
    if moe is not None and moe.num_leading_dense_layers == 0 and moe.moe_layer_freq == 1:
        return moe.expert_ffn_hidden_size  # no dense layer, so the value is never priced
    raise InputError(Sentence("{}.ffn_hidden_size: missing; give the width of the dense layers.", where))
