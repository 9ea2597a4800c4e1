"""The order in which every rank runs its tasks; no order depends on how long tasks take."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain

import numpy as np

from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Orders, Place, Tables, Task, task_of
from documents.sentences import Sentence


def as_tables(orders: Callable[[PipelineShape], Orders]) -> Callable[[PipelineShape], Tables]:
    """The tables of orders that are written task by task."""

    def tables(shape: PipelineShape) -> Tables:
        width = len(Task._fields)
        return tuple(np.fromiter(chain.from_iterable(order), dtype=np.int64).reshape(-1, width) for order in orders(shape))

    return tables


@lru_cache(maxsize=8)
def rank_tables(shape: PipelineShape) -> Tables:
    """Tasks of every rank in execution order, ``[rank]`` of ``[position, field of Task]``.

    Raises ``ValueError`` for fewer micro batches than the schedule takes, or for a number that its streams cannot share.
    """
    rules = shape.schedule.rules
    fewest, streams = rules.fewest_microbatches.of(shape.pp), rules.num_streams
    if shape.num_microbatches < fewest or shape.num_microbatches % streams or shape.pp % streams:
        even = Sentence(", and an even number of both") if streams > 1 else ""
        raise ValueError(
            Sentence(
                "{}: {} micro batches do not fill {} pipeline ranks, which need at least {}{}",
                shape.schedule.label,
                shape.num_microbatches,
                shape.pp,
                fewest,
                even,
            )
        )
    return rules.orders(shape)


@lru_cache(maxsize=8)
def rank_orders(shape: PipelineShape) -> Orders:
    """``rank_tables`` as tasks, ``[rank][position]``."""
    return tuple(tuple(task_of(row) for row in table.tolist()) for table in rank_tables(shape))


def previous_place(shape: PipelineShape, rank: int, chunk: int) -> Place | None:
    """Rank and chunk of the forward that feeds a chunk, ``None`` for the first of all.

    A loop leads from the last rank back to the first; a V turns round on the last rank; a second stream starts on the last rank.
    """
    last, rules = shape.pp - 1, shape.schedule.rules
    if rules.num_streams > 1:
        before = rank - 1 if chunk == 0 else rank + 1
        return (before, chunk) if 0 <= before <= last else None
    if rules.is_vee and chunk % 2:
        return (rank + 1, chunk) if rank < last else (rank, chunk - 1)
    if rank > 0:
        return rank - 1, chunk
    return None if chunk == 0 else (0 if rules.is_vee else last, chunk - 1)


def next_places(shape: PipelineShape) -> dict[Place, Place]:
    """The reverse of ``previous_place`` for every chunk that feeds another."""
    places = [(rank, chunk) for rank in range(shape.pp) for chunk in range(shape.num_chunks)]
    return {before: place for place in places if (before := previous_place(shape, *place)) is not None}
