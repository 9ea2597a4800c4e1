r"""Names of cells and operators in MindFormers' layers, which recompute and swap select, and numbers of layers.

A pattern is a path below a layer with steps separated by ``\.``. Each step is a regular expression for one whole name
[mindformers-1.8, training_graph/transformer/utils.py]. The names are those of the graph branch
[mindformers-1.8, training_graph/transformer/transformer_layer.py, mlp.py, norm.py, flash_attention.py].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape

# Operators of a norm, by (normalization, fused); the last one casts the result to the input's type.
_NORM = {
    ("RMSNorm", True): "norm|cast",
    ("RMSNorm", False): "square|mean|add|rsqrt|mul|mul2|cast",
    ("LayerNorm", True): "layer_norm|cast",
    ("LayerNorm", False): "mean|mean2|square|sqrt|sub|add|add2|mul|real_div|cast",
}
_ACTIVATION = {
    "swiglu": (r"mlp\.activation_func\.swiglu",),
    "silu": (r"mlp\.mul", r"mlp\.activation_func\.silu"),
    "gelu": (r"mlp\.activation_func\.gelu",),
}
# Patterns for models of the legacy branch; ``select_recompute: True`` means these.
_LEGACY_NORM = (r".*\.norm",)
_LEGACY_ACTIVATION = (
    (r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"),
    (r"feed_forward\.mul", r"feed_forward\.activate\.silu"),  # gate and value in one matmul [mindformers-1.8, llama_layer.py]
)
_FREE_OPERATOR = "reshape"  # it moves nothing, and no gradient needs what it returns
GATHERED = r".*\.norm"  # whose collective ``select_comm_recompute`` repeats unless it names others
_NORMS = ((GATHERED,), (r"attention_norm\.norm", r"ffn_norm\.norm"), (r"input_layernorm\.norm", r"pre_mlp_layernorm\.norm"))
FLASH_ATTENTION = r"self_attention\.core_attention\.flash_attention"
SWAPPED = {"op_name": FLASH_ATTENTION, "backward_prefetch": 1, "layers": True}


def normalization(model: ModelShape) -> str:
    """``RMSNorm`` or ``LayerNorm``."""
    return "RMSNorm" if model.gated_linear_unit else "LayerNorm"


def hidden_act(model: ModelShape, features: Feature) -> str:
    """Name of the activation; ``use_fused_swiglu`` has an effect on ``swiglu`` only [mindformers-1.8, mlp.py]."""
    if not model.gated_linear_unit:
        return "gelu"
    return "swiglu" if Feature.FUSED_SWIGLU in features else "silu"


def _norm_pattern(operators: str) -> tuple[str, ...]:
    return (rf"(input|pre_mlp)_layernorm\.({operators})",)


def recompute_patterns(model: ModelShape, s: ParallelStrategy) -> list[str]:
    """Patterns of the modules that the strategy recomputes."""
    patterns: list[str] = []
    if RecomputeModule.LAYERNORM in s.recompute_modules:
        patterns += _norm_pattern(_NORM[normalization(model), Feature.FUSED_NORM in s.features])
    if RecomputeModule.MLP_ACT in s.recompute_modules:
        patterns += _ACTIVATION[hidden_act(model, s.features)]
    if RecomputeModule.MLP in s.recompute_modules:
        patterns += ["mlp"]
    return patterns


_BY_PATTERNS: tuple[tuple[RecomputeModule, tuple[str, ...]], ...] = (
    *((RecomputeModule.LAYERNORM, _norm_pattern(operators)) for operators in _NORM.values()),
    (RecomputeModule.LAYERNORM, _LEGACY_NORM),
    *((RecomputeModule.MLP_ACT, patterns) for patterns in (*_ACTIVATION.values(), *_LEGACY_ACTIVATION)),
    (RecomputeModule.MLP, ("mlp",)),
)


def modules_of(patterns: Iterable[str] | bool) -> RecomputeModule:
    """The modules that patterns name; ``True`` means the activation function [mindformers-1.8, utils.py]."""
    if isinstance(patterns, bool):
        return RecomputeModule.MLP_ACT if patterns else RecomputeModule(0)
    given = set(patterns)
    modules = RecomputeModule(0)
    for module, names in _BY_PATTERNS:
        modules |= module if given.issuperset(names) else RecomputeModule(0)
    return modules


class Selection(NamedTuple):
    """Modules that ``select_recompute`` names, each with its number of layers by virtual stage, ``[chunk][stage]``.

    ``is_read``: whether these are all operators that it names, equally many of each module.
    """

    layers: Mapping[RecomputeModule, Sequence[Sequence[int]]]
    is_read: bool


def selection(value: Any, layout: LayerLayout, schedule: Schedule, *, numbered: bool) -> Selection:
    """The reading of a ``select_recompute``; ``numbered``: lists have numbers of layers, as with swap.

    A name has the first layers of each virtual stage. Without names, the value belongs to those of the activation function
    [mindformers-1.8, training_graph/transformer/utils.py]. Raises ``ValueError`` for other values.
    """
    counts = _by_name(value, _LEGACY_ACTIVATION[0], layout, schedule, numbered=numbered)
    found: dict[RecomputeModule, Sequence[Sequence[int]]] = {}
    read: set[str] = set()
    for module, names in _BY_PATTERNS:
        if set(names).issubset(counts) and all(counts[name] == counts[names[0]] for name in names):
            found[module] = counts[names[0]]
            read.update(names)
    return Selection(found, all(name in read or name.endswith(_FREE_OPERATOR) for name in counts))


def gathered_again(value: Any, layout: LayerLayout, schedule: Schedule, *, numbered: bool) -> Sequence[Sequence[int]] | None:
    """Layers of each virtual stage that ``select_comm_recompute`` makes gather the outputs of both norms again.

    ``None``: it names other operators. Reshapes beside the norms are those that the same tensors pass
    [mindformers-1.8, research/qwen2_5]. Raises ``ValueError`` as ``selection`` does.
    """
    counts = _by_name(value, (GATHERED,), layout, schedule, numbered=numbered)
    norms = {name: each for name, each in counts.items() if not name.endswith(_FREE_OPERATOR)}
    if not counts:
        return [[0] * len(row) for row in layout]
    rows = list(counts.values())
    return rows[0] if any(set(norms) == set(names) for names in _NORMS) and all(each == rows[0] for each in rows) else None


def _by_name(
    value: Any, usual: Sequence[str], layout: LayerLayout, schedule: Schedule, *, numbered: bool
) -> dict[str, list[list[int]]]:
    """Layers of each virtual stage by name of an operator, without those of no layer."""
    named = isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
    given = value if isinstance(value, Mapping) else dict.fromkeys(value if named else usual, named or value)
    counts = {str(name): layers_selected(each, layout, schedule, numbered=numbered) for name, each in given.items()}
    return {name: each for name, each in counts.items() if any(map(any, each))}


def layers_selected(value: Any, layout: LayerLayout, schedule: Schedule, *, numbered: bool) -> list[list[int]]:
    """Layers of each virtual stage, ``[chunk][stage]``, of one name: all, none, or numbers as of ``recompute``."""
    if isinstance(value, bool) or value is None:
        return [[layers if value else 0 for layers in row] for row in layout]
    by_chunk = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    rows, stages = value if by_chunk else [value], len(layout[0])
    if not all(isinstance(row, list) and all(isinstance(each, int) and each >= 0 for each in row) for row in rows):
        raise ValueError(value)
    if numbered and not by_chunk:
        return counts_of(value, layout)
    if any(len(row) != stages for row in rows) or (by_chunk and len(rows) != len(layout)):
        raise ValueError(value)
    if by_chunk:
        return [list(map(min, row, held)) for row, held in zip(by_rank(rows, schedule), layout, strict=True)]
    held = [sum(row[stage] for row in layout) for stage in range(stages)]
    return spread([held[stage] * each if isinstance(each, bool) else each for stage, each in enumerate(value)], layout)


def spread(by_stage: Sequence[int], layout: LayerLayout) -> list[list[int]]:
    """Recomputed layers of each virtual stage, ``[chunk][stage]``, from a number for each stage.

    Layers are assigned one at a time to the stage's chunks that have one left [mindformers-1.8, utils.py].
    """
    counts = [[0] * len(row) for row in layout]
    for stage, wanted in enumerate(by_stage[: len(layout[0])]):
        left = min(wanted, sum(row[stage] for row in layout))
        while left:
            for chunk, row in enumerate(layout):
                if left and counts[chunk][stage] < row[stage]:
                    counts[chunk][stage] += 1
                    left -= 1
    return counts


def by_rank(rows: Sequence[Sequence[int]], schedule: Schedule) -> list[list[int]]:
    """Numbers of each virtual stage, ``[chunk][stage]``, reordered from the order of the model to the order of ranks, or back.

    In a V the second chunk runs the ranks in reverse, and lists have its numbers by rank [mindformers-1.8, utils.py].
    """
    return [list(row)[:: -1 if schedule.rules.is_vee and chunk % 2 else 1] for chunk, row in enumerate(rows)]


def numbers_of_layers(counts: Sequence[Sequence[int]], layout: LayerLayout) -> list[int]:
    """Numbers, from 0, of the first ``counts[chunk][stage]`` layers of each virtual stage."""
    numbers: list[int] = []
    first = 0
    for row, wanted in zip(layout, counts, strict=True):
        for layers, count in zip(row, wanted, strict=True):
            numbers += range(first, first + min(count, layers))
            first += layers
    return numbers


def counts_of(numbers: Iterable[int], layout: LayerLayout) -> list[list[int]]:
    """Number of the numbered layers on each virtual stage, ``[chunk][stage]``."""
    chosen = set(numbers)
    counts: list[list[int]] = []
    first = 0
    for row in layout:
        counts.append([])
        for layers in row:
            counts[-1].append(len(chosen.intersection(range(first, first + layers))))
            first += layers
    return counts


def block_size(counts: Sequence[Sequence[int]], layout: LayerLayout) -> int | None:
    """The ``recompute_num_layers`` of method block that gives these counts, or ``None``."""
    most = max(map(max, counts))
    same = all(
        n == min(most, held) for given, row in zip(counts, layout, strict=True) for n, held in zip(given, row, strict=True)
    )
    return most if same else None
