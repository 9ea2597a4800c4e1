"""The model of a run record."""

from __future__ import annotations

import re

from calibration.record_fields import RecordError, Section, shown
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape

_MAX_LAYERS, _MAX_WIDTH, _MAX_VOCABULARY, _MAX_EXPERTS = 10_000, 10**6, 10**8, 10**5
_USUAL_HEAD_DIM = 128
# Megatron pads the vocabulary to a multiple of 128 x tp [megatron-0.12, arguments.py, make-vocab-size-divisible-by].
# MindSpeed-LLM's published scripts set that to 1 and state other paddings as padded-vocab-size.
_VOCABULARY_MULTIPLE = {"megatron-lm": 128, "nemo": 128, "megatron-deepspeed": 128}


def record_model(
    section: Section, *, num_noop_layers: int, tp: int, num_virtual_stages: int, stack: str, flags: tuple[str, ...]
) -> ModelShape:
    """Shape of a record's ``model`` section, without its name; dimensions the source leaves out take usual values.

    ``num_noop_layers`` is how many idle layers the strategy lists, used where the model does not count them.
    """
    hidden = section.integer("hidden_size", high=_MAX_WIDTH)
    mla = _mla(section.section_or_none("mla"))
    heads = section.integer_or_none("num_attention_heads", high=_MAX_WIDTH)
    kv_channels = section.integer_or_none("kv_channels", high=_MAX_WIDTH)
    if heads is None:
        kv_channels = kv_channels or _USUAL_HEAD_DIM
        heads = max(hidden // kv_channels, 1)
        section.warn("num_attention_heads", None, f"is not stated, read as {heads} of {kv_channels} channels")
    moe = _moe(section.section_or_none("moe"))
    ffn = section.integer_or_none("ffn_hidden_size", high=10 * _MAX_WIDTH)
    if ffn is None:
        ffn = moe.expert_ffn_hidden_size if moe else 4 * hidden
        section.warn("ffn_hidden_size", None, f"is not stated, read as {ffn}")
    return ModelShape(
        name="",
        num_layers=_num_layers(section, num_noop_layers, num_virtual_stages),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_query_groups=min(section.integer("num_query_groups", heads, high=_MAX_WIDTH), heads),
        kv_channels=kv_channels or max(hidden // heads, 1),
        ffn_hidden_size=ffn,
        vocab_size=_vocabulary(section, tp, stack),
        gated_linear_unit=section.flag("gated_linear_unit", True),
        tied_embeddings=section.flag("tied_embeddings"),
        mtp_num_layers=section.integer("mtp_num_layers", 0, low=0, high=16),
        sandwich_norm="post-norm" in flags,
        attention_bias="add-qkv-bias" in flags,
        alibi="square-alibi-mask" in flags or "position-embedding-type=alibi" in flags,
        mla=mla,
        moe=moe,
    )


def _num_layers(section: Section, listed: int, num_virtual_stages: int) -> int:
    """Layers that compute. A record may count its no-op layers among ``num_layers``: then only the sum fills the stages."""
    layers = section.integer("num_layers", high=_MAX_LAYERS)
    noop = section.integer("num_noop_layers", 0, low=0, high=_MAX_LAYERS) or listed
    if noop and layers % num_virtual_stages == 0 and (layers + noop) % num_virtual_stages:
        section.warn("num_noop_layers", noop, f"are counted in num_layers {layers}, {layers - noop} compute")
        layers -= noop
    if layers < 1:
        raise RecordError(f"{section.name}.num_noop_layers is {noop}; fewer than num_layers {layers + noop} are needed.")
    return layers


def _vocabulary(section: Section, tp: int, stack: str) -> int:
    padded = section.integer_or_none("padded_vocab_size", high=_MAX_VOCABULARY)
    if padded is not None:
        return padded
    multiple = _VOCABULARY_MULTIPLE.get(stack, 1) * tp
    return -(-section.integer("vocab_size", high=_MAX_VOCABULARY) // multiple) * multiple


def _mla(section: Section | None) -> MlaShape | None:
    if section is None:
        return None
    return MlaShape(
        q_lora_rank=section.integer("q_lora_rank", 0, low=0, high=_MAX_WIDTH),
        kv_lora_rank=section.integer("kv_lora_rank", high=_MAX_WIDTH),
        qk_nope_head_dim=section.integer("qk_nope_head_dim", high=_MAX_WIDTH),
        qk_rope_head_dim=section.integer("qk_rope_head_dim", low=0, high=_MAX_WIDTH),
        v_head_dim=section.integer("v_head_dim", high=_MAX_WIDTH),
    )


def _moe(section: Section | None) -> MoeShape | None:
    if section is None:
        return None
    experts = section.integer("num_experts", high=_MAX_EXPERTS)
    width = section.integer("expert_ffn_hidden_size", high=_MAX_WIDTH)
    shared = section.integer("num_shared_experts", 0, low=0, high=_MAX_EXPERTS)
    dense, frequency = _moe_layers(section)
    top_k = section.integer("top_k", high=_MAX_EXPERTS)
    if top_k > experts:
        raise section.error("top_k", f"a whole number up to num_experts {experts}")
    return MoeShape(
        num_experts=experts,
        top_k=top_k,
        expert_ffn_hidden_size=width,
        num_shared_experts=shared,
        shared_expert_ffn_hidden_size=section.integer(
            "shared_expert_ffn_hidden_size", shared * width, low=0, high=10 * _MAX_WIDTH
        ),
        num_leading_dense_layers=dense,
        moe_layer_freq=frequency,
        num_groups=section.integer("num_groups", 1, high=_MAX_EXPERTS),
        group_topk=section.integer("group_topk", 1, high=_MAX_EXPERTS),
        capacity_factor=section.number_or_none("capacity_factor", low=1e-3, high=1000.0),
    )


def _moe_layers(section: Section) -> tuple[int, int]:
    """Leading dense layers, and the frequency of MoE layers after them: -1 and null mean every layer.

    Also reads Megatron's pattern ``([0]*3+[1]*58)`` and the list it stands for.
    """
    dense = max(section.integer("num_leading_dense_layers", 0, low=-1, high=_MAX_LAYERS), 0)
    pattern = section.values.get("moe_layer_freq")
    if isinstance(pattern, str):
        found = re.fullmatch(r"\(?\[0\]\*(\d{1,5})\+\[1\]\*\d{1,5}\)?", pattern.replace(" ", ""))
        if not found:
            section.warn("moe_layer_freq", pattern, "is not a known pattern, every layer after the dense ones is MoE")
        return (int(found[1]) if found else dense), 1
    if isinstance(pattern, list):
        zeros = next((i for i, kind in enumerate(pattern) if kind), len(pattern))
        if not all(pattern[zeros:]):
            section.warn("moe_layer_freq", shown(pattern), "mixes layers, all after the first MoE layer are read as MoE")
        return zeros, 1
    return dense, max(section.integer("moe_layer_freq", 1, low=-1, high=_MAX_LAYERS), 1)
