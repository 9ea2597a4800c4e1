"""Layers of a ``config.json`` that are MoE, and layers without full attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from app.catalogue.models.huggingface.config import Config, given
from cost_models.shapes.model_constants import RouterConstants
from cost_models.shapes.workload import LocalAttention, MoeShape
from documents.bounds import MAX_LAYERS, MAX_TOKENS
from documents.errors import InputError
from documents.sentences import Sentence

LayerTypes = Annotated[list[Literal["full_attention", "sliding_attention", "linear_attention"]], Field(max_length=MAX_LAYERS)]
Window = Annotated[int, Field(ge=1, le=int(MAX_TOKENS))]


def full_attention_every(name: str, local: Sequence[bool], num_layers: int) -> int | None:
    """n of each n-th layer with full attention; 0: none has it, None: all have it. ``local`` has one entry a layer."""
    if len(local) != num_layers:
        raise InputError(Sentence("{}: it has {} entries; give one for each of the {} layers.", name, len(local), num_layers))
    if not any(local):
        return None
    if all(local):
        return 0
    every = local.index(False) + 1
    if any(is_local != ((index + 1) % every != 0) for index, is_local in enumerate(local)):
        raise InputError(Sentence("{}: it puts full attention at an irregular distance; only each n-th layer may have it.", name))
    return every


def windowed(config: Config, name: str, local: Sequence[bool]) -> LocalAttention | None:
    """Layers with a window of ``sliding_window`` tokens; ``name`` is the field that lists them."""
    every = full_attention_every(name, local, config.num_hidden_layers)
    if every is None:
        return None
    return LocalAttention("window", full_attention_every=every, window=given(config, "sliding_window"))


def of_type(layer_types: Sequence[str], kind: str, name: str = "layer_types") -> list[bool]:
    """Whether each layer is of ``kind`` in place of full attention; no other kind may occur."""
    for index, layer in enumerate(layer_types):
        if layer not in (kind, "full_attention"):
            raise InputError(Sentence("{}[{}]: {!r} is not allowed; give {} or full_attention.", name, index, layer, kind))
    return [layer == kind for layer in layer_types]


def num_experts(config: Config, names: tuple[str, ...]) -> int:
    """The first of ``names`` that is there: transformers writes one under several."""
    counts = {name: count for name in names if (count := getattr(config, name)) is not None}
    if not counts:
        raise InputError(Sentence("{}: missing; give an integer.", names[0]))
    first, *others = counts
    for name in others:
        if counts[name] != counts[first]:
            raise InputError(Sentence("{}: {} is not allowed; {} says {}.", name, counts[name], first, counts[first]))
    return int(counts[first])


def moe_period(name: str, pattern: tuple[bool, ...]) -> tuple[int, int]:
    """``num_leading_dense_layers`` and ``moe_layer_freq`` that give ``pattern``, which has a MoE layer."""
    moe_layers = [index for index, is_moe in enumerate(pattern) if is_moe]
    frequency = moe_layers[1] - moe_layers[0] if len(moe_layers) > 1 else max(len(pattern) - moe_layers[0], 1)
    first = moe_layers[0] - frequency + 1
    rebuilt = tuple(index >= first and (index - first) % frequency == frequency - 1 for index in range(len(pattern)))
    if first < 0 or rebuilt != pattern:
        raise InputError(
            Sentence(
                "{}: it puts MoE layers at an irregular distance; dense layers may only lead, or alternate with a fixed period.",
                name,
            )
        )
    return first, frequency


def routed_experts(config: Config, number: int, num_shared: int = 0, **more: Any) -> MoeShape:
    """Routed experts, and shared ones of the same width, under the names of fields that most families have."""
    width = given(config, "moe_intermediate_size")
    return MoeShape(
        num_experts=number,
        top_k=given(config, "num_experts_per_tok"),
        expert_ffn_hidden_size=width,
        num_shared_experts=num_shared,
        shared_expert_ffn_hidden_size=num_shared * width,
        **more,
    )


def with_shared_experts(moe: MoeShape, width: int) -> MoeShape:
    """``moe`` with shared experts of total ``width``.

    Each shared expert is as wide as a routed expert if ``width`` is a multiple of that; otherwise there is one shared expert.
    """
    number = width // moe.expert_ffn_hidden_size if width % moe.expert_ffn_hidden_size == 0 else 1
    return replace(moe, num_shared_experts=number, shared_expert_ffn_hidden_size=width)


def softmax_router(*, normalize: bool, gate: bool = False) -> RouterConstants:
    """Weights are a softmax over the experts, and stay so where ``normalize`` is false."""
    return RouterConstants("softmax", normalize_topk=normalize, topk_scale=1.0, expert_bias=False, shared_expert_gate=gate)


def sigmoid_router(*, normalize: bool = True, scale: float = 1.0, expert_bias: bool = True) -> RouterConstants:
    """The weight of an expert is the sigmoid of its score."""
    return RouterConstants("sigmoid", normalize_topk=normalize, topk_scale=scale, expert_bias=expert_bias)
