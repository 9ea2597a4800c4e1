"""1F1B whose weight gradients run later, in gaps that would be bubbles: the common part of ZB1P and ZB2P [zero-bubble]."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cost_models.schedules.orders import as_tables
from cost_models.schedules.schedule import Composition, Floats, IntColumn, PipelineShape, Ranks
from cost_models.schedules.tasks import Orders, Pass, Tables, Task


def delayed_orders(ahead: int) -> Callable[[PipelineShape], Tables]:
    """Orders whose rank i runs ``ahead`` (p - 1 - i) forwards before its first backward.

    The weight gradient of a micro batch follows ``ahead`` i backwards later.
    """

    def orders(shape: PipelineShape) -> Orders:
        last = shape.pp - 1
        return tuple(_order(ahead * (last - rank), ahead * rank, shape.num_microbatches) for rank in range(shape.pp))

    return as_tables(orders)


def _order(warmup: int, delay: int, m: int) -> tuple[Task, ...]:
    order = [Task(Pass.FORWARD, 0, k) for k in range(min(warmup, m))]
    for k in range(m):
        if warmup + k < m:
            order.append(Task(Pass.FORWARD, 0, warmup + k))
        order.append(Task(Pass.INPUT_GRADIENT, 0, k))
        if k >= delay:
            order.append(Task(Pass.WEIGHT_GRADIENT, 0, k - delay))
    order += [Task(Pass.WEIGHT_GRADIENT, 0, k) for k in range(max(m - delay, 0), m)]
    return tuple(order)


def delayed_in_flight(ahead: int) -> Callable[[Ranks, Floats, IntColumn, bool], Iterator[Composition]]:
    """The rule ``in_flight`` of ``delayed_orders``; it yields ``[rank, 1, kind, n]``.

    A micro batch that waits for its weight gradient is also held [zero-bubble, sections 2.3 and 4]. Later ranks of a kind have
    more of them, and fewer that wait for their backward.
    """

    def in_flight(ranks: Ranks, num_microbatches: Floats, group_size: IntColumn, all_turns: bool) -> Iterator[Composition]:
        last_rank = np.array([[float(of_kind[-1])] for of_kind in ranks.ranks])
        held: list[list[Floats]] = []
        waiting: list[list[Floats]] = []
        for rank in (ranks.first_rank, last_rank):
            before = np.minimum(ahead * (ranks.pp - 1 - rank) + 1.0, num_microbatches)
            after = np.minimum(ahead * rank, num_microbatches - before)
            held += [[before], [before - 1.0]]
            waiting += [[after], [after + 1.0]]
        yield Composition(np.array(held), np.array(waiting), np.zeros((len(held), 1, 1)))

    return in_flight
