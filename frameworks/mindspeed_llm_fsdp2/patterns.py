"""Names of modules with ranges: ``model.layers.{*}`` or ``model.layers.{0-11}`` [mindspeed, fsdp/utils/str_match.py]."""

from __future__ import annotations

import re
from collections.abc import Sequence

from documents.bounds import MAX_NUMBER

LAYERS = "model.layers.{*}"
SHARDED = (LAYERS, "model.embed_tokens", "lm_head")  # modules that are sharded one by one
EXPERTS = ("model.layers.{*}.mlp.experts",)
NAMES_NOTHING = "model.layers.{*}.mlp.router"  # in files for models whose routers have another name
_RANGE = re.compile(r"model\.layers\.\{(\d{1,6})-(\d{1,6})\}")


def range_of(num_layers: int) -> str:
    """The pattern of the first layers."""
    return f"model.layers.{{0-{num_layers - 1}}}"


def num_layers_of(patterns: Sequence[str]) -> int | None:
    """Layers that patterns name, each once: ``MAX_NUMBER`` for all, and ``None`` if they name parts of layers."""
    ranges: list[tuple[int, int]] = []
    for pattern in patterns:
        if pattern == LAYERS:
            return MAX_NUMBER
        found = _RANGE.fullmatch(pattern)
        if found is None or int(found[1]) > int(found[2]):
            return None
        ranges.append((int(found[1]), int(found[2]) + 1))
    number, seen = 0, 0  # layers before ``seen`` are counted
    for first, end in sorted(ranges):
        number += max(end - max(first, seen), 0)
        seen = max(seen, end)
    return number
