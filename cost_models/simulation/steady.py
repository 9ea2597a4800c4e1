"""Steady state of a pipeline with many micro batches: the time that each further period adds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from cost_models.schedules.orders import rank_tables
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass, Table
from cost_models.simulation.program import Rows, compiled
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Moment:
    """The end of a wavefront: the tasks that later tasks wait for, by position in the program and by row of the ring."""

    front: int
    positions: Rows
    rows: Rows


@dataclass(frozen=True)
class Steady:
    """Two moments, one period of micro batches apart, that every longer program of the schedule also passes.

    The awaited tasks have the same order in both. From either moment on, the same tasks follow in programs that end equally
    long after it. If all ends of the later moment are those of the earlier one plus a constant, each further period therefore
    adds that constant to the ends of the ranks, and ``class_counts`` tasks.
    """

    first: Moment
    second: Moment
    class_counts: Rows


def _later(shape: PipelineShape, tasks: Table) -> Table:
    """Tasks shifted by one period."""
    shift = shape.passes_in_period
    kind, chunk, micro_batch, backward_chunk, backward_micro_batch = tasks.T
    behind = np.where(kind == Pass.PAIR, backward_micro_batch + shift, backward_micro_batch)
    return np.stack([kind, chunk, micro_batch + shift, backward_chunk, behind], axis=1)


def _num_equal(one: Table, other: Table) -> int:
    """Number of equal tasks before the first that differs."""
    number = min(len(one), len(other))
    differ = (one[:number] != other[:number]).any(axis=1)
    return int(differ.argmax()) if differ.any() else number


def _found(of: Table, among: Table) -> Rows:
    """Index of each row among other, distinct rows; -1 for a row that is not among them."""
    span = tuple(np.maximum(of.max(axis=0), among.max(axis=0)) + 2)
    wanted, codes = (np.ravel_multi_index(tuple((rows + 1).T), span) for rows in (of, among))
    order = np.argsort(codes)
    place = order[np.minimum(np.searchsorted(codes, wanted, sorter=order), len(order) - 1)]
    found: Rows = np.where(codes[place] == wanted, place, -1)
    return found


@lru_cache(maxsize=256)
def steady_of(shape: PipelineShape) -> Steady | None:
    """The last two such moments of a program; ``None`` if a longer program does not repeat it."""
    program, longer = compiled(shape), rank_tables(replace(shape, num_microbatches=shape.num_microbatches + shape.period))
    orders = [np.flatnonzero(program.ranks == rank) for rank in range(shape.pp)]
    fronts = [program.fronts[order] for order in orders]

    def cuts(front: int) -> list[int]:
        """Number of each rank's tasks that end by this wavefront."""
        return [int(np.searchsorted(of_rank, front, side="right")) for of_rank in fronts]

    # Up to the first task that differs on any rank both programs pass the same moments.
    same = [_num_equal(program.tasks[order], tasks) for order, tasks in zip(orders, longer, strict=True)]
    if min(same) == 0:
        return None
    second_front = min(int(of_rank[count - 1]) for of_rank, count in zip(fronts, same, strict=True))
    second = cuts(second_front)
    lengths = [len(tasks) - len(order) for tasks, order in zip(longer, orders, strict=True)]  # number of tasks in a period
    first = [cut - length for cut, length in zip(second, lengths, strict=True)]
    if min(first) < 1:
        return None
    first_front = max(int(of_rank[cut - 1]) for of_rank, cut in zip(fronts, first, strict=True))
    if cuts(first_front) != first:
        return None
    left = [order[cut:] for order, cut in zip(orders, first, strict=True)]
    for order, later, tasks in zip(left, second, longer, strict=True):
        if not np.array_equal(_later(shape, program.tasks[order]), tasks[later:]):
            return None
    waits = program.waits
    sources = np.stack([waits.previous, *waits.inputs], axis=1)[np.concatenate(left)].ravel()
    sources = sources[(sources >= 0) & (program.fronts[sources] <= first_front)]
    needed = sources[np.sort(np.unique(sources, return_index=True)[1])]
    placed = np.column_stack([program.ranks, program.tasks])
    shifted = _found(np.column_stack([program.ranks[needed], _later(shape, program.tasks[needed])]), placed)
    if (shifted < 0).any() or (program.fronts[shifted] > second_front).any():
        return None  # the tasks that the earlier moment waits for are still part of the warm-up
    moments = [
        Moment(front, positions, program.rows[positions]) for front, positions in ((first_front, needed), (second_front, shifted))
    ]
    between = np.concatenate([order[a:b] for order, a, b in zip(orders, first, second, strict=True)])
    return Steady(moments[0], moments[1], np.bincount(program.task_class[between], minlength=len(program.classes)))
