"""ZB-V: two chunks on a rank in a V, the memory of 1F1B, no idle time between equal tasks [zero-bubble]."""

from __future__ import annotations

import numpy as np

from cost_models.schedules.in_flight import counted_in_order
from cost_models.schedules.orders import as_tables
from cost_models.schedules.schedule import Fewest, Floats, PassSeconds, Pipeline, PipelineShape, ScheduleRules
from cost_models.schedules.tasks import Orders, Pass, Task


def _orders(shape: PipelineShape) -> Orders:
    """The hand-made order [pytorch, schedules.py]."""
    return tuple(_rank_order(rank, shape.pp, shape.num_microbatches) for rank in range(shape.pp))


def _rank_order(rank: int, pp: int, m: int) -> tuple[Task, ...]:
    order: list[Task] = []
    passed = {(kind, chunk): 0 for kind in (Pass.FORWARD, Pass.INPUT_GRADIENT, Pass.WEIGHT_GRADIENT) for chunk in (0, 1)}

    def run(kind: Pass, chunk: int) -> None:
        order.append(Task(kind, chunk, passed[kind, chunk]))
        passed[kind, chunk] += 1

    def run_backward(chunk: int) -> None:
        run(Pass.INPUT_GRADIENT, chunk)
        run(Pass.WEIGHT_GRADIENT, chunk)

    for _ in range(2 * (pp - rank) - 1):
        run(Pass.FORWARD, 0)
    for _ in range(rank):
        run(Pass.FORWARD, 1)
        run(Pass.FORWARD, 0)
    for _ in range(pp - rank):
        run(Pass.FORWARD, 1)
        run_backward(1)
    while passed[Pass.FORWARD, 1] < m:
        if passed[Pass.FORWARD, 0] < m:
            run(Pass.FORWARD, 0)
        run_backward(0)
        run(Pass.FORWARD, 1)
        run_backward(1)
    for _ in range(rank):
        run(Pass.INPUT_GRADIENT, 0)
        run(Pass.INPUT_GRADIENT, 1)
    for _ in range(pp - rank):
        run(Pass.INPUT_GRADIENT, 0)
        run(Pass.WEIGHT_GRADIENT, 0)
    for chunk in (1, 0):
        while passed[Pass.WEIGHT_GRADIENT, chunk] < passed[Pass.INPUT_GRADIENT, chunk]:
            run(Pass.WEIGHT_GRADIENT, chunk)
    return tuple(order)


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """Read off the simulated orders."""
    f, b = seconds.forward, seconds.backward
    return np.maximum(np.maximum(b - 2.0 * seconds.weight_gradient, f - b / 2.0), 0.0)


RULES = ScheduleRules(
    label="zbv",
    source="[zero-bubble-code; pytorch, ScheduleZBVZeroBubble]",
    chunks="two",
    usual=False,
    tried="if_named",
    num_streams=1,
    is_vee=True,
    in_groups=False,
    splits_backward=True,
    can_detach=False,
    overlaps_steps=True,
    has_steady_state=True,
    pairs=None,
    fewest_microbatches=Fewest(a_rank=2, more=-1),
    orders=as_tables(_orders),
    bubble_share_s=_bubble_share_s,
    in_flight=counted_in_order,
)
