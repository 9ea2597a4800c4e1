"""Activation checkpoints of torchtitan: none, all layers, each n-th layer of a rank, or operators of all layers.

A rank counts its layers over all of its chunks, so each n-th layer is a number of layers of each rank
[torchtitan-0.2, activation_checkpoint.py].
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from cost_models.shapes.strategy import LayerLayout, Recompute, RecomputeMethod
from documents.sentences import Sentence
from frameworks.fully_sharded import EVERYTHING, NOTHING, Checkpoints


class Mode(NamedTuple):
    """``activation_checkpoint.mode``, and of ``selective`` its option: operators, or each n-th layer, where 0 is each as 1."""

    mode: str
    option: str = ""

    @property
    def every_nth(self) -> bool:
        """Whether it is of each n-th layer."""
        return self.option.isdecimal()

    @property
    def every(self) -> int:
        """The number of the option."""
        return int(self.option)


BY_OPERATORS = Mode("selective", "op")
IN_PARTS = Sentence("layers with experts are compiled in parts, inside which checkpoints see no operators")

WITH_EXPERTS = Sentence("checkpoints by operator of main keep what experts exchanged, which has no price")
OVER_SHARDS = Sentence(
    "checkpoints by operator of main have no price with tensor parallelism, whose reduce-scatters it may repeat"
)
KEEPS_EXCHANGE = Sentence("checkpoints by operator of this model keep what experts exchanged, which has no price with ep")


def checkpoints_of(mode: Mode, layout: LayerLayout) -> Checkpoints:
    """Fields of a strategy for a mode: a block of layers, or in a pipeline layers of each rank."""
    if mode.mode == "none":
        return NOTHING
    if mode.mode == "full" or mode.every <= 1:
        return EVERYTHING
    layers = tuple(sum(chunks) // mode.every for chunks in zip(*layout, strict=True))
    if not any(layers):
        return NOTHING
    if len(layers) == 1:
        return Checkpoints(Recompute.FULL, RecomputeMethod.BLOCK, layers[0])
    return Checkpoints(Recompute.FULL, layers_per_stage=layers)


@lru_cache(maxsize=4096)
def mode_of(checkpoints: Checkpoints, layout: LayerLayout) -> Mode | None:
    """The mode that recomputes so; ``None`` if none does."""
    if checkpoints == NOTHING:
        return Mode("none")
    if checkpoints == EVERYTHING:
        return Mode("full")
    return next((mode for mode in _selective(layout) if checkpoints_of(mode, layout) == checkpoints), None)


def nearest_mode(num_recomputed: int, layout: LayerLayout) -> Mode:
    """The mode with the fewest recomputed layers that are not less than given ones of the model."""
    total = sum(map(sum, layout))
    fitting = [mode for mode in _selective(layout) if total // mode.every >= num_recomputed]
    return fitting[-1] if fitting else Mode("full")


def _selective(layout: LayerLayout) -> list[Mode]:
    most = max(sum(row[stage] for row in layout) for stage in range(len(layout[0])))
    return [Mode("selective", str(every)) for every in range(2, most + 1)]
