"""Layers of virtual stages as one argument [megatron-0.19, pipeline_parallel_layer_layout.py]."""

from __future__ import annotations

import re
from typing import NamedTuple

from cost_models.shapes.strategy import LayerLayout
from documents.bounds import MAX_LAYERS
from documents.sentences import Sentence
from frameworks.framework import ReadingError

LAYOUT = "pipeline-model-parallel-layout"
_MOST = 4 * MAX_LAYERS  # characters, repetitions written out
_REPEATED = (re.compile(r"\(([^)]+)\)\*(\d{1,6})"), re.compile(r"(.)\*(\d{1,6})"))


def layout_text(layout: LayerLayout, num_mtp_layers: int, mtp_before_head: int = 0) -> str:
    """Text of the virtual stages in the order of the model.

    E is the embedding, t a layer, m an MTP module, L the loss.
    """
    stages = ["t" * layers for chunk in layout for layers in chunk]
    stages[0] = "E" + stages[0]
    stages[-1 - mtp_before_head] += "m" * num_mtp_layers
    stages[-1] += "L"
    return "|".join(stages)


class Placed(NamedTuple):
    """Contents of a layout text: layers of each ``[chunk][stage]``, and virtual stages from the MTP modules to the loss."""

    layout: LayerLayout
    mtp_before_head: int
    num_mtp_layers: int


def read_layout(text: str, pp: int) -> Placed:
    """The layout in ``text`` for ``pp`` ranks. Raises ``ReadingError`` if no strategy matches."""
    shown = Sentence("{} {!r}", LAYOUT, text[:80])
    written = text.replace(",", "")
    for pattern in _REPEATED:
        total = len(written) + sum(len(found[1]) * int(found[2]) for found in pattern.finditer(written))
        if total > _MOST:
            raise ReadingError(Sentence("{} has more than {} characters", shown, _MOST))
        written = pattern.sub(lambda found: found[1] * int(found[2]), written)
    stages = written.split("|")
    if not re.fullmatch(r"E[t|]*[m|]*L", written):
        raise ReadingError(Sentence("{} is no list of stages from E, t, m and L, in this order", shown))
    if len(stages) % pp:
        raise ReadingError(Sentence("{} has {} stages, which pp {} does not divide", shown, len(stages), pp))
    predicting = [at for at, stage in enumerate(reversed(stages)) if "m" in stage]
    before = predicting[0] if predicting else 0
    if len(predicting) > 1 or (before and before > pp - 2):
        raise ReadingError(
            Sentence(
                "{} has m on {} stages, {} before the last: one is allowed, in a rank's last chunk, and not on the first rank",
                shown,
                len(predicting),
                before,
            )
        )
    counts = [stage.count("t") for stage in stages]
    layout = tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))
    return Placed(layout, before, written.count("m"))
