"""Moves of one layer from a virtual stage to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cost_models.shapes.canonical import canonical
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence


def layout_of(workload: Workload, plan: ParallelStrategy) -> LayerLayout:
    """Layers of each virtual stage, ``[chunk][stage]``, in the order of the model: the plan's own layout or the default."""
    return plan.layer_layout or default_layout(workload.model, plan.pp, plan.vpp, plan.schedule)


def moved(layout: Sequence[Sequence[int]], giver: int, taker: int) -> LayerLayout:
    """The layout after a move of one layer between two virtual stages, both counted from 0 in the order of the model."""
    pp, counts = len(layout[0]), [layers for row in layout for layers in row]
    counts[giver] -= 1
    counts[taker] += 1
    return tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))


def move_text(giver: int, taker: int, num_stages: int) -> str:
    """The name of a move."""
    return Sentence("a layer moved from virtual stage {} to {} of {}", giver + 1, taker + 1, num_stages)


def neighbouring_moves(workload: Workload, plan: ParallelStrategy) -> dict[ParallelStrategy, str]:
    """The plan after each move to a neighbouring virtual stage, and the name of the move; legal or not."""
    layout = layout_of(workload, plan)
    counts = [layers for row in layout for layers in row]
    pairs = [(giver, taker) for giver, layers in enumerate(counts) if layers for taker in (giver - 1, giver + 1)]
    return {
        canonical(workload, replace(plan, layer_layout=moved(layout, giver, taker))): move_text(giver, taker, len(counts))
        for giver, taker in pairs
        if 0 <= taker < len(counts)
    }
