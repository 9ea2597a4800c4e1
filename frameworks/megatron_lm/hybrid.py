"""Layers of one block in arguments of core 0.19, where bars between their symbols end virtual stages.

Source: [megatron-0.19, arguments.py, hybrid_layer_allocation.py, mamba_mixer.py].
"""

from __future__ import annotations

from typing import Any

from cost_models.shapes.strategy import LayerLayout
from cost_models.shapes.workload import LAYER_SYMBOLS, ModelShape
from documents.bounds import MAX_LAYERS
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError
from frameworks.model_facts import Arguments

PATTERN, FORMER = "hybrid-layer-pattern", "hybrid-override-pattern"  # the latter is deprecated
ENTRY_POINT = "pretrain_hybrid.py"
CONV_KERNEL, CHUNK_SIZE, EXPANSION = 4, 128, 2  # of a state space; no argument has them, and no heads mean the last
NUMBERS = ("mamba-state-dim", "mamba-head-dim", "mamba-num-groups", "mamba-num-heads")
STACKS = (  # the layers of hybrid models, which are the default, by both names
    ("megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"),
    ("megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"),
)
_STAGE, _PREDICTION = "|", "/"
_MOST = 2 * MAX_LAYERS  # characters, with bars


def pattern_arguments(model: ModelShape, layout: LayerLayout) -> Arguments:
    """The symbols of the layers with a bar between virtual stages, in the order of the model."""
    stages, first = [], 0
    for layers in (layers for chunk in layout for layers in chunk):
        stages.append(model.hybrid_layer_pattern[first : first + layers])
        first += layers
    return {PATTERN: _STAGE.join(stages)}


def plain(text: str) -> str:
    """The symbols alone. Raises ``ReadingError`` for layers that are not priced."""
    layers = text.partition(_PREDICTION)[0].replace(_STAGE, "")
    if not layers or len(text) > _MOST:
        raise ReadingError(Sentence("{} of {} symbols is not allowed; give 1 to {}", PATTERN, len(text), MAX_LAYERS))
    if unknown := set(layers) - set(LAYER_SYMBOLS):
        shown, known = joined(" ", sorted(unknown)), joined(" ", LAYER_SYMBOLS)
        raise ReadingError(Sentence("{}: layers {} are not priced; known are {}", PATTERN, shown, known))
    return layers


def predicts(text: str) -> bool:
    """Whether the text has layers of multi-token prediction."""
    return _PREDICTION in text


def layout_of(text: str, pp: int) -> LayerLayout | None:
    """Layers of each ``[chunk][stage]`` by the bars; ``None`` without bars. Raises ``ReadingError`` if ``pp`` does not fit."""
    stages = text.partition(_PREDICTION)[0].split(_STAGE)
    if len(stages) == 1:
        return None
    if len(stages) % pp:
        raise ReadingError(Sentence("{} has {} stages, and pp {} does not divide them", PATTERN, len(stages), pp))
    counts = [len(stage) for stage in stages]
    return tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))


def known(text: str, hidden_size: int, head_dim: int) -> dict[str, Any]:
    """Fields of the model that follow from the symbols, and those that no argument has."""
    if "M" not in text:
        return {}
    return {
        "local_attention.kind": "state_space",
        "local_attention.conv_kernel": CONV_KERNEL,
        "local_attention.chunk_size": CHUNK_SIZE,
        "local_attention.num_value_heads": EXPANSION * hidden_size // head_dim,
    }
