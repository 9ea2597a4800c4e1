"""Rotary positions of a ``config.json``: base, part of a head, scaling [transformers-main, modeling_rope_utils.py]."""

from __future__ import annotations

import math
from typing import Any

from app.catalogue.models.huggingface.config import Config, Rope, Source
from cost_models.shapes.model_constants import RopeScaling
from documents.errors import InputError, show
from documents.sentences import Sentence, joined

YARN_BETA_FAST, YARN_BETA_SLOW = 32.0, 1.0  # the library's defaults
KINDS = ("default", "linear", "llama3", "yarn", "dynamic")
SAME = 1e-6  # relative tolerance for the library's own attention factor


def rotary(config: Config, source: Source, *, fraction: float | None = None) -> dict[str, Any]:
    """Keywords of ``ModelConstants``; ``fraction`` is the part of a head that is rotated, where a file states it."""
    local, whole = _entries(config)
    base = _agreed("rope_theta", config.rope_theta, whole.rope_theta if whole else None) or config.default_theta
    rotated = _agreed("partial_rotary_factor", fraction, whole.partial_rotary_factor if whole else None)
    rotated = config.default_fraction if rotated is None else rotated
    scaling = config.rope_scaling or whole
    name = "rope_scaling" if config.rope_scaling is not None else "rope_parameters"
    positions = config.max_position_embeddings or config.default_positions
    values: dict[str, Any] = {"rotary_base": base, "rotary_fraction": rotated, "max_position_embeddings": positions}
    if scaling is not None:
        values["rope_scaling"] = _scaling(scaling, name, positions, source)
    if local is not None and local.rope_theta is not None:
        values["local_rotary_base"] = local.rope_theta
        if _kind(local, "rope_parameters.sliding_attention") != "default":
            raise InputError(
                Sentence(
                    "rope_parameters.sliding_attention.rope_type: {} is not allowed; give default, layers with "
                    "a window are not stretched.",
                    show(local.rope_type),
                )
            )
    return values


def _entries(config: Config) -> tuple[Rope | None, Rope | None]:
    """Rotary settings of the layers with a window, None without separate ones, and settings of all other layers."""
    given = config.rope_parameters
    if given is None or given.full_attention is None:
        return None, given
    return given.sliding_attention, given.full_attention


def _agreed(name: str, first: float | None, second: float | None) -> float | None:
    """Value of a field that two places may state; ``InputError`` if they differ."""
    if first is not None and second is not None and first != second:
        raise InputError(Sentence("rope_parameters.{}: {} is not allowed; {} says {}.", name, show(second), name, show(first)))
    return second if first is None else first


def _kind(rope: Rope, name: str) -> str:
    kind = rope.rope_type or rope.type or "default"
    if kind not in KINDS:
        raise InputError(Sentence("{}.rope_type: {} is not supported; supported: {}.", name, show(kind), joined(", ", KINDS)))
    return kind


def _scaling(rope: Rope, name: str, positions: int | None, source: Source) -> RopeScaling | None:
    kind = _kind(rope, name)
    if kind == "default":
        return None
    if kind == "dynamic":
        source.notes.append(
            Sentence(
                "{}: dynamic stretches only sequences above max_position_embeddings{}; it is in no launch file.",
                name,
                Sentence(" ({})", positions) if positions else "",
            )
        )
        return None
    if rope.factor is None:
        raise InputError(Sentence("{}.factor: missing; give a number above 0.", name))
    if kind == "llama3":
        for field in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
            if getattr(rope, field) is None:
                raise InputError(Sentence("{}.{}: missing; give a number above 0.", name, field))
    if kind == "yarn":
        _check_attention_factor(rope, name)
    yarn = kind == "yarn"
    return RopeScaling(
        kind=kind,
        factor=rope.factor,
        original_max_position_embeddings=rope.original_max_position_embeddings,
        low_freq_factor=rope.low_freq_factor,
        high_freq_factor=rope.high_freq_factor,
        beta_fast=rope.beta_fast or (YARN_BETA_FAST if yarn else None),
        beta_slow=rope.beta_slow or (YARN_BETA_SLOW if yarn else None),
        mscale=rope.mscale,
        mscale_all_dim=rope.mscale_all_dim,
        truncate=rope.truncate,
    )


def _check_attention_factor(rope: Rope, name: str) -> None:
    """Refuse an attention factor other than the library's default: no framework has an argument for it."""
    if rope.attention_factor is None or rope.factor is None:
        return

    def scale(mscale: float) -> float:
        return 0.1 * mscale * math.log(rope.factor) + 1.0 if rope.factor and rope.factor > 1 else 1.0

    own = scale(rope.mscale) / scale(rope.mscale_all_dim) if rope.mscale and rope.mscale_all_dim else scale(1.0)
    if abs(rope.attention_factor - own) > SAME * own:
        raise InputError(
            Sentence("{}.attention_factor: {} is not allowed; give {:.6g}, or leave it out.", name, rope.attention_factor, own)
        )
