"""Modules of each pipeline stage, as torchtitan names them, and the stages that it makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cost_models.shapes.strategy import LayerLayout
from documents.sentences import Sentence
from frameworks.framework import ReadingError

FIRST, LAYER = "tok_embeddings", "layers."


def modules_of(layout: LayerLayout, head: str) -> list[list[str]]:
    """Names of the modules of each virtual stage, in the order of the model, which ends with ``head``."""
    counts = [count for row in layout for count in row]
    parts: list[list[str]] = []
    first = 0
    for count in counts:
        parts.append([f"{LAYER}{index}" for index in range(first, first + count)])
        first += count
    return [[FIRST, *parts[0]], *parts[1:-1], [*parts[-1], "norm", head]]


def counts_of(parts: Any, num_layers: int, head: str) -> list[int]:
    """Layers of each virtual stage from the names of its modules; raises ``ReadingError`` for another order than the model's."""
    wanted = [FIRST, *(f"{LAYER}{index}" for index in range(num_layers)), "norm", head]
    is_list = isinstance(parts, list) and all(isinstance(part, list) for part in parts)
    if not is_list or [name for part in parts for name in part] != wanted:
        raise ReadingError(
            Sentence(
                "parallelism.module_fqns_per_model_part does not place {}, {} layers, {} and {} once and in this order",
                FIRST,
                num_layers,
                "norm",
                head,
            )
        )
    return [sum(str(name).startswith(LAYER) for name in part) for part in parts]


def usual_counts(num_layers: int, stages: int, first_less: int, last_less: int) -> list[int]:
    """Layers of each virtual stage that the release itself makes [torchtitan-0.2, pipeline_parallel.py:236].

    Embedding and head count as so many layers. Raises ``ReadingError`` for numbers that it refuses.
    """
    each, more = divmod(num_layers + first_less + last_less, stages)
    if stages > num_layers + first_less + last_less or max(first_less, last_less) > each:
        raise ReadingError(
            Sentence(
                "{} layers with an embedding of {} and a head of {} do not fill {} virtual stages",
                num_layers,
                first_less,
                last_less,
                stages,
            )
        )
    counts = [each + (index < more) for index in range(stages)]
    counts[0] -= first_less
    counts[-1] -= last_less
    return counts


def layout_from(counts: Sequence[int], pp: int) -> LayerLayout:
    """``[chunk][stage]`` of the counts of virtual stages; raises ``ReadingError`` if the ranks do not have equally many."""
    if len(counts) % pp:
        raise ReadingError(Sentence("{} virtual stages do not divide over pp {}", len(counts), pp))
    return tuple(tuple(counts[start : start + pp]) for start in range(0, len(counts), pp))
