"""Training recipes that vendors publish, as data: each with its model, devices, plan and source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass

VOCABULARY_TOLERANCE = 0.02  # embeddings are padded to rows that the tensor ranks divide


@dataclass(frozen=True)
class Recipe:
    """A published plan. ``devices``: those of a profile that it holds for; ``strategy``: as a job gives it."""

    model: Mapping[str, int]
    vendor: str
    title: str
    source: str
    date: str
    devices: tuple[str, ...]
    num_devices: int
    seq_length: int
    global_batch_size: int
    precision: str
    strategy: Mapping[str, Any]

    def trains(self, model: ModelShape) -> bool:
        """Whether the recipe is for a model of these dimensions, whatever its name."""
        return all(_equal(name, size, _dimension(model, name)) for name, size in self.model.items())


def _equal(name: str, size: int, other: int | None) -> bool:
    if other is None:
        return False
    return abs(other - size) <= (VOCABULARY_TOLERANCE * size if name == "vocab_size" else 0)


def _dimension(model: ModelShape, name: str) -> int | None:
    where = model if hasattr(model, name) else model.moe
    found: int | None = getattr(where, name, None)
    return found


@cache
def recipes() -> tuple[Recipe, ...]:
    """All recipes of ``recipes.json``."""
    text = (resources.files(__package__) / "recipes.json").read_text(encoding="utf-8")
    document = json.loads(text)
    return tuple(
        Recipe(**{**entry, "model": document["models"][entry["model"]], "devices": tuple(document["devices"][entry["devices"]])})
        for entry in document["recipes"]
    )
