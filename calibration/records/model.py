"""The model of a run record."""

from __future__ import annotations

import re

from calibration.records.known_flags import OFF
from calibration.records.sections import Degrees, ModelSection, MoeSection, Notes, quoted, refused
from calibration.records.software import RecordSoftware
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape
from documents.errors import InputError
from documents.sentences import Sentence

_USUAL_HEAD_DIM = 128
# Megatron pads the vocabulary to a multiple of 128 x tp [megatron-0.12, arguments.py, make-vocab-size-divisible-by].
# MindSpeed-LLM's published scripts set that to 1 and state other paddings as padded-vocab-size.
_USUAL_TOP_K = 2  # [megatron-0.12, arguments.py, moe-router-topk]
_MINDFORMERS_CAPACITY = 1.1  # default of MindFormers' MoEConfig [mindformers-1.5, moe.py]
_MINDFORMERS_CORE_YEAR = 2025.9  # r1.7
_VOCABULARY_MULTIPLE = {"megatron-lm": 128, "nemo": 128, "megatron-deepspeed": 128}


def record_model(
    section: ModelSection, notes: Notes, degrees: Degrees, software: RecordSoftware, *, num_noop_layers: int
) -> ModelShape:
    """Shape of a record's ``model`` section, without its name; missing dimensions take usual values.

    ``num_noop_layers`` is the number of idle layers that the strategy lists, used if the model does not count them.
    """
    hidden, heads, kv_channels = section.hidden_size, section.num_attention_heads, section.kv_channels
    if heads is None:
        kv_channels = kv_channels or _USUAL_HEAD_DIM
        heads = max(hidden // kv_channels, 1)
        notes.add("num_attention_heads", None, Sentence("is not stated, read as {} of {} channels", heads, kv_channels))
    moe = None if section.moe is None else _moe(section.moe, section.ffn_hidden_size or 4 * hidden, notes, software)
    for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        if section.mla is not None and name not in section.mla.model_fields_set:
            notes.add(f"mla.{name}", None, Sentence("is not stated, read as {}", getattr(section.mla, name)))
    ffn = section.ffn_hidden_size
    if ffn is None:
        ffn = moe.expert_ffn_hidden_size if moe else 4 * hidden
        notes.add("ffn_hidden_size", None, Sentence("is not stated, read as {}", ffn))
    return ModelShape(
        name="",
        num_layers=_num_layers(section, notes, num_noop_layers, degrees.virtual_stages),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_query_groups=min(section.num_query_groups or heads, heads),
        kv_channels=kv_channels or max(hidden // heads, 1),
        ffn_hidden_size=ffn,
        vocab_size=_vocabulary(section, degrees.tp, software.software.stack),
        gated_linear_unit=section.gated_linear_unit,
        tied_embeddings=section.tied_embeddings,
        mtp_num_layers=section.mtp_num_layers,
        sandwich_norm=software.has("post-norm"),
        attention_bias=section.attention_bias or software.has("add-qkv-bias"),
        alibi=software.has("square-alibi-mask") or software.flag_value("position-embedding-type") == "alibi",
        mla=None if section.mla is None else MlaShape(**dict(section.mla)),
        moe=moe,
        local_attention=_window(section, software, notes),
        constants=ModelConstants(attention_sinks=section.attention_sinks, activation_clamp=section.activation_clamp),
    )


def _window(section: ModelSection, software: RecordSoftware, notes: Notes) -> LocalAttention | None:
    """The attention window: as stated; MindSpeed's is in all layers or every second one, Megatron's in all but every n-th."""
    if section.sliding_window:
        return LocalAttention("window", full_attention_every=section.full_attention_every, window=section.sliding_window)
    for name, full_every in (("sliding-window", 0), ("interleave-sliding-window", 2), ("window-size", None)):
        stated = software.flag_value(name)
        if stated is None or stated.lower() in OFF:
            continue
        size = re.match(r"\(?\s*(\d{1,9})", stated)
        if size is None or not int(size[1]):
            notes.add(name, stated, Sentence("is no number of tokens, left out"))
            continue
        skipped = software.flag_value("window-attn-skip-freq") or "0"
        every = (int(skipped[:9]) if skipped.isdecimal() else 0) if full_every is None else full_every
        tokens = int(size[1]) + (full_every is None)  # Megatron counts the tokens before a token, without itself
        return LocalAttention("window", full_attention_every=every, window=tokens)
    return None


def _num_layers(section: ModelSection, notes: Notes, listed: int, num_virtual_stages: int) -> int:
    """Layers that compute. If a record counts no-op layers in ``num_layers``, only the sum fills the stages."""
    layers, noop = section.num_layers, section.num_noop_layers or listed
    if noop and layers % num_virtual_stages == 0 and (layers + noop) % num_virtual_stages:
        notes.add("num_noop_layers", noop, Sentence("are counted in num_layers {}, {} compute", layers, layers - noop))
        layers -= noop
    if layers < 1:
        raise refused("model.num_noop_layers", noop, Sentence("fewer than num_layers {}", layers + noop))
    return layers


def _vocabulary(section: ModelSection, tp: int, stack: str) -> int:
    if section.padded_vocab_size is not None:
        return section.padded_vocab_size
    if section.vocab_size is None:
        raise InputError(Sentence("model.vocab_size: missing; give an integer."))
    multiple = _VOCABULARY_MULTIPLE.get(stack, 1) * tp
    return -(-section.vocab_size // multiple) * multiple


def _moe(section: MoeSection, ffn: int, notes: Notes, software: RecordSoftware) -> MoeShape:
    """The experts; without a stated width, as wide as the dense layers' ``ffn``."""
    experts, width, shared = section.num_experts, section.expert_ffn_hidden_size or ffn, section.num_shared_experts
    dense, frequency = _moe_layers(section, notes)
    top_k = section.top_k or min(_USUAL_TOP_K, experts)
    if section.expert_ffn_hidden_size is None:
        notes.add("moe.expert_ffn_hidden_size", None, Sentence("is not stated, read as {}", width))
    if section.top_k is None:
        notes.add("moe.top_k", None, Sentence("is not stated, read as {}", top_k))
    if top_k > experts:
        raise refused("model.moe.top_k", top_k, Sentence("an integer up to num_experts {}", experts))
    stated, capacity = section.shared_expert_ffn_hidden_size, section.capacity_factor
    if capacity is None and _has_default_capacity(software):
        capacity = _MINDFORMERS_CAPACITY
        notes.add("moe.capacity_factor", None, Sentence("is not stated, read as the framework's {}", capacity))
    return MoeShape(
        num_experts=experts,
        top_k=top_k,
        expert_ffn_hidden_size=width,
        num_shared_experts=shared,
        shared_expert_ffn_hidden_size=shared * width if stated is None else stated,
        num_leading_dense_layers=dense,
        moe_layer_freq=frequency,
        num_groups=section.num_groups,
        group_topk=section.group_topk,
        capacity_factor=capacity,
        expert_biases=section.expert_biases,
    )


def _has_default_capacity(software: RecordSoftware) -> bool:
    """MindFormers before its layers of Megatron's kind: every expert takes the same, unless experts are a grouped matmul."""
    told = software.software
    old = told.stack == "mindformers" and told.year is not None and told.year < _MINDFORMERS_CORE_YEAR
    return old and not software.has("use-gmm")


def _moe_layers(section: MoeSection, notes: Notes) -> tuple[int, int]:
    """Leading dense layers, and the frequency of MoE layers after them: -1 and null mean every layer.

    Also reads Megatron's pattern ``([0]*3+[1]*58)`` and the list it stands for.
    """
    dense, pattern = max(section.num_leading_dense_layers, 0), section.moe_layer_freq
    if isinstance(pattern, str):
        found = re.fullmatch(r"\(?\[0\]\*(\d{1,5})\+\[1\]\*\d{1,5}\)?", pattern.replace(" ", ""))
        if not found:
            notes.add("moe.moe_layer_freq", pattern, Sentence("is not a known pattern, every layer after the dense ones is MoE"))
        return (int(found[1]) if found else dense), 1
    if isinstance(pattern, list):
        zeros = next((i for i, kind in enumerate(pattern) if kind), len(pattern))
        if not all(pattern[zeros:]):
            notes.add(
                "moe.moe_layer_freq", quoted(pattern), Sentence("mixes layers, all after the first MoE layer are read as MoE")
            )
        return zeros, 1
    return dense, max(pattern, 1)
