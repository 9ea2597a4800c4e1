"""Layers that keep other tensors are layers of another kind: the tables of a pipeline under a tensor plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.tensors import TensorChoice, TensorPlan

Counts = NDArray[np.int64]


class ChosenKind(NamedTuple):
    """A kind of layer under a tensor plan: which kind of the model it is, and what it does not keep."""

    of_model: int
    choice: TensorChoice


def chosen_kinds(plan: TensorPlan, num_kinds: int) -> tuple[ChosenKind, ...]:
    """Every kind of the model with each choice that the plan has for it, wherever layers lie.

    Parameters
    ----------
    plan : TensorPlan, ``[chunk][stage][kind]``
        One choice for every kind of layer.
    num_kinds : int
        Kinds of layers of the model.

    Returns
    -------
    tuple of ChosenKind
        Kinds in the order of the model, choices in that of their first virtual stage.
    """
    stages = [stage for row in plan for stage in row]
    return tuple(ChosenKind(kind, choice) for kind in range(num_kinds) for choice in dict.fromkeys(s[kind] for s in stages))


def by_choice(column: Counts, plan: TensorPlan, kinds: tuple[ChosenKind, ...]) -> Counts:
    """Layers by kind of the model taken apart by what they do not keep.

    Parameters
    ----------
    column : Counts, ``[kind of the model, stage, chunk, ...]``
        Layers, or those among the first of a chunk.
    plan : TensorPlan, ``[chunk][stage][kind]``
        As long as the pipeline, or an ``IndexError``.
    kinds : tuple of ChosenKind
        ``chosen_kinds`` of the plan.

    Returns
    -------
    Counts, ``[chosen kind, stage, chunk, ...]``
    """
    split = np.zeros((len(kinds), *column.shape[1:]), dtype=np.int64)
    for number, (kind, choice) in enumerate(kinds):
        for stage, chunk in np.ndindex(column.shape[1:3]):
            if plan[chunk][stage][kind] == choice:
                split[number, stage, chunk] = column[kind, stage, chunk]
    return split


def of_model(column: Counts, kinds: tuple[ChosenKind, ...]) -> Counts:
    """The inverse of ``by_choice``.

    Parameters
    ----------
    column : Counts, ``[chosen kind, ...]``
        Layers of each kind.
    kinds : tuple of ChosenKind
        What they are.

    Returns
    -------
    Counts, ``[kind of the model, ...]``
    """
    joined = np.zeros((1 + max(kind.of_model for kind in kinds), *column.shape[1:]), dtype=column.dtype)
    np.add.at(joined, [kind.of_model for kind in kinds], column)
    return joined
