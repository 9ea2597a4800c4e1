"""Kinds of layers under a tensor plan: layers that keep other tensors are another kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.tensors import TensorChoice, TensorPlan, share_ends

Counts = NDArray[np.int64]


class ChosenKind(NamedTuple):
    """A kind of layer under a tensor plan: the kind of the model, and the tensors that it does not keep."""

    of_model: int
    choice: TensorChoice


def chosen_kinds(plan: TensorPlan, num_kinds: int) -> tuple[ChosenKind, ...]:
    """Each kind of the model's layers with each of its choices in the plan ``[chunk][stage][kind]``.

    Kinds are in the order of the model, choices in the order of their first virtual stage.
    """
    stages = [stage for row in plan for stage in row]
    return tuple(
        ChosenKind(kind, choice)
        for kind in range(num_kinds)
        for choice in dict.fromkeys(share.choice for stage in stages for share in stage[kind])
    )


def by_choice(column: Counts, plan: TensorPlan, kinds: tuple[ChosenKind, ...]) -> Counts:
    """Layers by chosen kind, ``[chosen kind, stage, chunk, ...]``.

    Parameters
    ----------
    column : ``[kind of the model, stage, chunk, ...]``
        Layers, or layers among the first of a chunk.
    plan : ``[chunk][stage][kind]``
        Must be as long as the pipeline; otherwise ``IndexError`` is raised.
    """
    split = np.zeros((len(kinds), *column.shape[1:]), dtype=np.int64)
    places, most = {chosen: number for number, chosen in enumerate(kinds)}, int(column.max(initial=0))
    for kind, stage, chunk in np.ndindex(column.shape[:3]):
        layers = column[kind, stage, chunk]
        for choice, start, end in share_ends(plan[chunk][stage][kind], most):
            split[places[ChosenKind(kind, choice)], stage, chunk] += np.clip(layers, start, max(start, end)) - start
    return split


def of_model(column: Counts, kinds: tuple[ChosenKind, ...]) -> Counts:
    """Layers by kind of the model, ``[kind of the model, ...]``: the inverse of ``by_choice``.

    Parameters
    ----------
    column : ``[chosen kind, ...]``
    """
    joined = np.zeros((1 + max(kind.of_model for kind in kinds), *column.shape[1:]), dtype=column.dtype)
    np.add.at(joined, [kind.of_model for kind in kinds], column)
    return joined
