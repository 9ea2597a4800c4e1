"""Where a pipeline of many micro batches repeats itself: what a period adds is then known without playing the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile

import numpy as np

from cost_models.pipeline.orders import rank_orders
from cost_models.pipeline.tasks import Pass, PipelineShape, Task
from cost_models.shapes.strategy import Schedule
from cost_models.simulation.program import Program, Rows, compiled


@dataclass(frozen=True)
class Moment:
    """The end of a wavefront: what later tasks wait for, by position in the program and by row of the ring."""

    front: int
    positions: Rows
    rows: Rows


@dataclass(frozen=True)
class Steady:
    """Two moments, a period of micro batches apart, that every longer program of the schedule passes too.

    What is waited for is in the same order in both. From either on, the same tasks follow in the programs that end as long
    after. So if all ends of the later moment are those of the earlier one and a constant, each further period adds that
    constant to the ends of the ranks, and ``class_counts`` tasks.
    """

    first: Moment
    second: Moment
    class_counts: Rows


def _later(shape: PipelineShape, task: Task) -> Task:
    """The same task, a period later."""
    shift = shape.period // 2 if shape.schedule is Schedule.DUALPIPE else shape.period
    behind = task.backward_micro_batch + shift if task.kind is Pass.PAIR else task.backward_micro_batch
    return task._replace(micro_batch=task.micro_batch + shift, backward_micro_batch=behind)


def _cuts(program: Program, order: list[list[int]], front: int) -> list[int]:
    """How many of each rank's tasks have ended with a wavefront."""
    return [sum(program.fronts[position] <= front for position in positions) for positions in order]


@lru_cache(maxsize=256)
def steady_of(shape: PipelineShape) -> Steady | None:
    """The last such moments of a program, ``None`` where a longer one does not repeat it.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Steady or None
    """
    program, longer = compiled(shape), rank_orders(replace(shape, num_microbatches=shape.num_microbatches + shape.period))
    steps = program.steps
    order: list[list[int]] = [[] for _ in range(shape.pp)]
    for position, step in enumerate(steps):
        order[step.rank].append(position)
    # Up to the first task that differs on any rank both programs pass the same moments.
    same = [
        sum(1 for _ in takewhile(lambda pair: steps[pair[0]].task == pair[1], zip(positions, tasks, strict=False)))
        for positions, tasks in zip(order, longer, strict=True)
    ]
    if min(same) == 0:
        return None
    second_front = min(program.fronts[positions[count - 1]] for positions, count in zip(order, same, strict=True))
    second = _cuts(program, order, second_front)
    number_of = [{steps[position].task: number for number, position in enumerate(positions)} for positions in order]
    lengths = [len(tasks) - len(positions) for tasks, positions in zip(longer, order, strict=True)]  # of a period
    first = [cut - length for cut, length in zip(second, lengths, strict=True)]
    if min(first) < 1:
        return None
    first_front = max(program.fronts[positions[cut - 1]] for positions, cut in zip(order, first, strict=True))
    if _cuts(program, order, first_front) != first:
        return None
    needed: dict[int, None] = {}
    for positions, earlier, later, tasks in zip(order, first, second, longer, strict=True):
        if [_later(shape, steps[position].task) for position in positions[earlier:]] != list(tasks[later:]):
            return None
        for position in positions[earlier:]:
            needed.update(dict.fromkeys(s for s in steps[position].sources if program.fronts[s] <= first_front))
    shifted = [number_of[steps[p].rank].get(_later(shape, steps[p].task)) for p in needed]
    if any(number is None or number >= second[steps[p].rank] for number, p in zip(shifted, needed, strict=True)):
        return None  # what the earlier moment waits for still belongs to the warm-up
    chosen = list(needed), [order[steps[p].rank][number or 0] for number, p in zip(shifted, needed, strict=True)]
    moments = [
        Moment(front, np.array(positions), np.array([program.rows[p] for p in positions]))
        for front, positions in zip((first_front, second_front), chosen, strict=True)
    ]
    between = [steps[p].task_class for positions, a, b in zip(order, first, second, strict=True) for p in positions[a:b]]
    return Steady(moments[0], moments[1], np.bincount(between, minlength=len(program.classes)))
