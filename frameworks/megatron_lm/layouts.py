"""Layers of virtual stages as one argument has them [megatron-0.19, pipeline_parallel_layer_layout.py]."""

from __future__ import annotations

import re

from cost_models.shapes.strategy import LayerLayout
from documents.bounds import MAX_LAYERS
from frameworks.framework import ReadingError

LAYOUT = "pipeline-model-parallel-layout"
_MOST = 4 * MAX_LAYERS  # characters, repetitions written out
_REPEATED = (re.compile(r"\(([^()]+)\)\*(\d{1,6})"), re.compile(r"(.)\*(\d{1,6})"))


def layout_text(layout: LayerLayout, num_mtp_layers: int) -> str:
    """Virtual stages in the order of the model: E the embedding, t a layer, m one that predicts further tokens, L the loss."""
    stages = ["t" * layers for chunk in layout for layers in chunk]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * num_mtp_layers + "L"
    return "|".join(stages)


def read_layout(text: str, pp: int) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``. Raises ``ReadingError``."""
    written = text.replace(",", "")
    for pattern in _REPEATED:
        total = len(written) + sum(len(found[1]) * int(found[2]) for found in pattern.finditer(written))
        if total > _MOST:
            raise ReadingError(f"{LAYOUT} {text[:80]!r} has more than {_MOST} characters")
        written = pattern.sub(lambda found: found[1] * int(found[2]), written)
    stages = written.split("|")
    if not re.fullmatch(r"E[tmL|]*L", written) or written.count("L") != 1:
        raise ReadingError(f"{LAYOUT} {text[:80]!r} is no list of stages from E, t, m and L")
    if len(stages) % pp:
        raise ReadingError(f"{LAYOUT} {text[:80]!r} has {len(stages)} stages, which pp {pp} does not divide")
    if any("m" in stage for stage in stages[:-1]):
        raise ReadingError(f"{LAYOUT} {text[:80]!r} puts m elsewhere than into the last stage, which is not priced")
    counts = [stage.count("t") for stage in stages]
    return tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))
