"""The order in which every rank runs its tasks, per schedule, as data: no order depends on how long tasks take."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.bidirectional_orders import bidirectional_orders
from cost_models.pipeline.tasks import NO_BACKWARD, Orders, Pass, PipelineShape, Table, Tables, Task, task_of
from cost_models.pipeline.zero_bubble_orders import zb1p_orders, zb2p_orders, zbv_orders
from cost_models.shapes.strategy import Schedule
from documents.sentences import Sentence

Numbers = NDArray[np.int64]


def _tasks(kind: Pass, chunk: Numbers, micro_batch: Numbers) -> Table:
    """Tasks of one kind that are no pairs."""
    none = np.full(len(chunk), NO_BACKWARD)
    return np.stack([np.full(len(chunk), kind), chunk, micro_batch, none, none], axis=1)


def _gpipe(shape: PipelineShape) -> Tables:
    """All forwards, then all backwards."""
    chunk, micro_batch = np.zeros(shape.num_microbatches, dtype=np.int64), np.arange(shape.num_microbatches)
    order = np.concatenate([_tasks(kind, chunk, micro_batch) for kind in (Pass.FORWARD, Pass.BACKWARD)])
    return (order,) * shape.pp


def chunk_sequence(shape: PipelineShape) -> tuple[Numbers, Numbers]:
    """Chunks and micro batches in the order of the interleaved schedule's forwards [megatron-0.12, schedules.py].

    Groups of micro batches pass all chunks, one chunk after the other; the last group may be smaller.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    tuple of NDArray, ``[forward]``
    """
    group, m = shape.group_size or shape.pp, shape.num_microbatches
    forward = np.arange(m * shape.vpp)
    first = forward // (group * shape.vpp) * group
    chunk, place = np.divmod(forward - first * shape.vpp, np.minimum(group, m - first))
    return chunk, first + place


def num_warmup_forwards(shape: PipelineShape, rank: int) -> int:
    """Forwards before the first backward, one fewer than a rank holds at its peak [megatron-0.12, schedules.py].

    Merged pairs need one more: their backward cannot be that of a forward of the same pair [mindspeed, vpp_schedules.py].

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.
    rank : int
        Pipeline rank, 0 for the first.

    Returns
    -------
    int
    """
    if shape.vpp == 1:
        count = shape.pp - 1 - rank
    else:
        count = 2 * (shape.pp - 1 - rank) + (shape.vpp - 1) * (shape.group_size or shape.pp)
    return min(count + shape.merge_pairs, shape.num_microbatches * shape.vpp)


def _one_forward_one_backward(shape: PipelineShape) -> Tables:
    """Warm-up forwards, then a forward and a backward in turn, then the backwards that are left."""
    chunk, micro_batch = chunk_sequence(shape)
    forwards = _tasks(Pass.FORWARD, chunk, micro_batch)
    backwards = _tasks(Pass.BACKWARD, shape.vpp - 1 - chunk, micro_batch)
    orders = []
    for rank in range(shape.pp):
        warmup = num_warmup_forwards(shape, rank)
        turns = len(forwards) - warmup
        if shape.merge_pairs:
            steady = np.concatenate([forwards[warmup:, :3], backwards[:turns, 1:3]], axis=1)
            steady[:, 0] = Pass.PAIR
        else:
            steady = np.stack([forwards[warmup:], backwards[:turns]], axis=1).reshape(-1, forwards.shape[1])
        orders.append(np.concatenate([forwards[:warmup], steady, backwards[turns:]]))
    return tuple(orders)


def _listed(orders: Callable[[PipelineShape], Orders]) -> Callable[[PipelineShape], Tables]:
    """The tables of orders that are written task by task."""

    def tables(shape: PipelineShape) -> Tables:
        width = len(Task._fields)
        return tuple(np.fromiter(chain.from_iterable(order), dtype=np.int64).reshape(-1, width) for order in orders(shape))

    return tables


_TABLES: dict[Schedule, Callable[[PipelineShape], Tables]] = {
    Schedule.NONE: _one_forward_one_backward,
    Schedule.ONE_F_ONE_B: _one_forward_one_backward,
    Schedule.INTERLEAVED: _one_forward_one_backward,
    Schedule.GPIPE: _gpipe,
    Schedule.ZB1P: _listed(zb1p_orders),
    Schedule.ZB2P: _listed(zb2p_orders),
    Schedule.ZBV: _listed(zbv_orders),
    Schedule.DUALPIPE: _listed(bidirectional_orders),
    Schedule.DUALPIPE_V: _listed(bidirectional_orders),
}


def fewest_microbatches(schedule: Schedule, pp: int) -> int:
    """What a schedule needs for its phases; DualPipe's number must be even, as must ``pp``.

    Parameters
    ----------
    schedule : Schedule
        Order of the passes.
    pp : int
        Pipeline ranks.

    Returns
    -------
    int
    """
    return {Schedule.ZBV: 2 * pp - 1, Schedule.DUALPIPE: 2 * pp, Schedule.DUALPIPE_V: 2 * pp - 1}.get(schedule, 1)


@lru_cache(maxsize=8)
def rank_tables(shape: PipelineShape) -> Tables:
    """Tasks of every rank in execution order, one a row; every forward has its backward once.

    Raises ``ValueError`` for a schedule that its micro batches do not fill.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    tuple of NDArray, ``[rank]`` of ``[position, field]``
        Fields are those of ``Task``.
    """
    fewest, both_ways = fewest_microbatches(shape.schedule, shape.pp), shape.schedule is Schedule.DUALPIPE
    if shape.num_microbatches < fewest or (both_ways and (shape.num_microbatches % 2 or shape.pp % 2)):
        even = Sentence(", and an even number of both") if both_ways else ""
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
    return _TABLES[shape.schedule](shape)


@lru_cache(maxsize=8)
def rank_orders(shape: PipelineShape) -> Orders:
    """The same as tasks.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Orders, ``[rank][position]``
    """
    return tuple(tuple(task_of(row) for row in table.tolist()) for table in rank_tables(shape))
