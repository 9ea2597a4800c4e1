"""The order in which every rank runs its tasks, per schedule, as data: no order depends on how long tasks take."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from cost_models.pipeline.bidirectional_orders import bidirectional_orders
from cost_models.pipeline.tasks import Orders, Pass, PipelineShape, Task
from cost_models.pipeline.zero_bubble_orders import zb1p_orders, zb2p_orders, zbv_orders
from cost_models.shapes.strategy import Schedule


def _gpipe(shape: PipelineShape) -> Orders:
    """All forwards, then all backwards."""
    order = [Task(kind, 0, k) for kind in (Pass.FORWARD, Pass.BACKWARD) for k in range(shape.num_microbatches)]
    return (tuple(order),) * shape.pp


def chunk_sequence(shape: PipelineShape) -> list[tuple[int, int]]:
    """(chunk, micro batch) in the order of the interleaved schedule's forwards [megatron-0.12, schedules.py].

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    list of tuple of int
    """
    group, m = shape.group_size or shape.pp, shape.num_microbatches
    return [
        (chunk, micro_batch)
        for first in range(0, m, group)
        for chunk in range(shape.vpp)
        for micro_batch in range(first, min(first + group, m))
    ]


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


def _one_forward_one_backward(shape: PipelineShape) -> Orders:
    """Warm-up forwards, then a forward and a backward in turn, then the backwards that are left."""
    sequence = chunk_sequence(shape)
    forwards = [Task(Pass.FORWARD, *place) for place in sequence]
    backwards = [Task(Pass.BACKWARD, shape.vpp - 1 - chunk, micro_batch) for chunk, micro_batch in sequence]
    orders = []
    for rank in range(shape.pp):
        warmup = num_warmup_forwards(shape, rank)
        turns = zip(forwards[warmup:], backwards, strict=False)
        if shape.merge_pairs:
            steady = [Task(Pass.PAIR, *forward[1:3], *backward[1:3]) for forward, backward in turns]
        else:
            steady = [task for turn in turns for task in turn]
        orders.append((*forwards[:warmup], *steady, *backwards[len(forwards) - warmup :]))
    return tuple(orders)


_ORDERS: dict[Schedule, Callable[[PipelineShape], Orders]] = {
    Schedule.NONE: _one_forward_one_backward,
    Schedule.ONE_F_ONE_B: _one_forward_one_backward,
    Schedule.INTERLEAVED: _one_forward_one_backward,
    Schedule.GPIPE: _gpipe,
    Schedule.ZB1P: zb1p_orders,
    Schedule.ZB2P: zb2p_orders,
    Schedule.ZBV: zbv_orders,
    Schedule.DUALPIPE: bidirectional_orders,
    Schedule.DUALPIPE_V: bidirectional_orders,
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
def rank_orders(shape: PipelineShape) -> Orders:
    """Tasks of every rank in execution order, ``[rank][position]``; every forward has its backward once.

    Raises ``ValueError`` for a schedule that its micro batches do not fill.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Orders, ``[rank][position]``
    """
    fewest, both_ways = fewest_microbatches(shape.schedule, shape.pp), shape.schedule is Schedule.DUALPIPE
    if shape.num_microbatches < fewest or (both_ways and (shape.num_microbatches % 2 or shape.pp % 2)):
        even = ", and an even number of both" if both_ways else ""
        raise ValueError(
            f"{shape.schedule.label}: {shape.num_microbatches} micro batches do not fill {shape.pp} pipeline ranks, "
            f"which need at least {fewest}{even}"
        )
    return _ORDERS[shape.schedule](shape)
