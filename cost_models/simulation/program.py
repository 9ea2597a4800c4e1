"""A pipeline's tasks with their dependencies, compiled once per shape: whole wavefronts for columns, a list for one row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.orders import rank_orders
from cost_models.pipeline.tasks import BACKWARDS, FORWARDS, Pass, PipelineShape, Task, next_places, previous_place

Rows = NDArray[np.int64]


class TaskClass(NamedTuple):
    """Tasks that take equally long whatever the micro batch: one row of a table of durations."""

    kind: Pass
    rank: int
    chunk: int
    backward_chunk: int = -1


class Step(NamedTuple):
    """One task for the evaluation of a single row: positions of what it waits for in the list, -1 for nothing."""

    rank: int
    task: Task
    task_class: int
    previous: int  # on the same rank; -1: the rank's own start
    inputs: tuple[tuple[int, bool], ...]  # (position, whether it comes from another rank)

    @property
    def sources(self) -> list[int]:
        """Positions of all that it waits for."""
        return [position for position in (self.previous, *(source for source, _ in self.inputs)) if position >= 0]


class Wavefront(NamedTuple):
    """Tasks of different ranks that wait for none of each other; all arrays hold one entry a task.

    ``previous`` and the first of each ``inputs`` are rows of the ring of end times, ``out`` the block of rows that the
    wavefront fills; the second of each is 1 where the input crosses to another rank. There are two where any task has two.
    """

    task_class: Rows
    micro_batch: Rows
    previous: Rows
    inputs: tuple[tuple[Rows, Rows], ...]
    out: slice


@dataclass(frozen=True)
class Program:
    """Everything that evaluating a pipeline needs but the durations.

    The ring holds ``num_rows`` rows: row 0 is time zero, rows 1 to ``pp`` the ranks' starts, the others end times that are
    still needed. ``last_rows`` are those of each rank's last task.
    """

    shape: PipelineShape
    classes: tuple[TaskClass, ...]
    class_counts: Rows  # how often each class runs
    steps: tuple[Step, ...]
    fronts: tuple[int, ...]  # wavefront of each step
    rows: tuple[int, ...]  # row of each step
    wavefronts: tuple[Wavefront, ...]
    num_rows: int
    last_rows: Rows  # [rank]
    last_positions: tuple[int, ...]  # [rank], in ``steps``


class _Needs:
    """Which earlier outputs each task waits for: a number each, and whether it comes from another rank.

    Outputs are numbered by pass, place and micro batch.
    """

    def __init__(self, shape: PipelineShape) -> None:
        places = [(rank, chunk) for rank in range(shape.pp) for chunk in range(shape.num_chunks)]
        following = next_places(shape)
        forward = {place: number * shape.num_microbatches for number, place in enumerate(places)}
        backward = {place: (len(places) + number) * shape.num_microbatches for number, place in enumerate(places)}
        before = {place: previous_place(shape, *place) for place in places}
        self._outputs = forward, backward
        self._before = {
            place: None if source is None else (forward[source], source[0] != place[0]) for place, source in before.items()
        }
        behind = {place: (backward[source], source[0] != place[0]) for place, source in following.items()}
        self._behind = {place: behind.get(place, (forward[place], False)) for place in places}

    def inputs(self, rank: int, task: Task) -> list[tuple[int, bool]]:
        """What must have ended."""
        found = []
        if task.kind in FORWARDS:
            before = self._before[rank, task.chunk]
            if before is not None:
                found.append((before[0] + task.micro_batch, before[1]))
        if task.kind in BACKWARDS:
            chunk, micro_batch = task.backward
            first, crosses = self._behind[rank, chunk]
            found.append((first + micro_batch, crosses))
        return found

    def outputs(self, rank: int, task: Task) -> list[int]:
        """What has ended with a task."""
        forward, backward = self._outputs
        found = [forward[rank, task.chunk] + task.micro_batch] if task.kind in FORWARDS else []
        if task.kind in BACKWARDS:
            chunk, micro_batch = task.backward
            found.append(backward[rank, chunk] + micro_batch)
        return found


def _in_dependency_order(shape: PipelineShape) -> tuple[tuple[Step, ...], tuple[TaskClass, ...]]:
    """All tasks, each after what it waits for, and their classes. Raises ``ValueError`` if ranks wait for each other."""
    orders, needs = rank_orders(shape), _Needs(shape)
    ended: dict[int, int] = {}  # position of the task that yields an output
    classes: dict[tuple[Pass, int, int, int], int] = {}
    steps: list[Step] = []
    last = [-1] * shape.pp
    upcoming = [0] * shape.pp
    blocked: dict[int, int] = {}  # rank that waits for an output
    runnable = list(range(shape.pp))
    while runnable:
        rank = runnable.pop()
        order = orders[rank]
        while upcoming[rank] < len(order):
            task = order[upcoming[rank]]
            inputs = needs.inputs(rank, task)
            missing = [need for need, _ in inputs if need not in ended]
            if missing:
                blocked[missing[0]] = rank
                break
            found = tuple([(ended[need], crosses) for need, crosses in inputs])
            task_class = classes.setdefault((task.kind, rank, task.chunk, task.backward_chunk), len(classes))
            position = len(steps)
            steps.append(Step(rank, task, task_class, last[rank], found))
            last[rank] = position
            upcoming[rank] += 1
            for output in needs.outputs(rank, task):
                ended[output] = position
                if output in blocked:
                    runnable.append(blocked.pop(output))
    if any(upcoming[rank] < len(orders[rank]) for rank in range(shape.pp)):
        raise ValueError(f"{shape.schedule.label}: the ranks wait for each other with {shape}")
    return tuple(steps), tuple(TaskClass(*each) for each in classes)


def _depths(steps: tuple[Step, ...]) -> list[int]:
    """Length of the longest chain of tasks before each."""
    depth = [0] * len(steps)
    for position, (_, _, _, previous, inputs) in enumerate(steps):
        longest = depth[previous] if previous >= 0 else -1
        for source, _ in inputs:
            if depth[source] > longest:
                longest = depth[source]
        depth[position] = 1 + longest
    return depth


def _wavefronts(shape: PipelineShape, steps: tuple[Step, ...], depth: list[int]) -> tuple[tuple[Wavefront, ...], int, list[int]]:
    """Tasks of one depth together, and every task's row in a ring that is as long as anything is needed."""
    fronts: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for position, level in enumerate(depth):
        fronts[level].append(position)
    line = [0] * len(steps)  # place in an endless ring
    lasts = {step.rank: position for position, step in enumerate(steps)}
    begin, reach = 0, 1
    for front in fronts:
        for offset, position in enumerate(front):
            line[position] = begin + offset
        oldest = min((line[source] for position in front for source in steps[position].sources), default=begin)
        begin += len(front)
        reach = max(reach, begin - oldest)
    reach = max(reach, begin - min(line[position] for position in lasts.values()))
    widest = max(map(len, fronts))
    size = reach + widest  # blocks do not wrap: a block that would starts again at the ring's beginning
    fixed = 1 + shape.pp
    rows, at = [0] * len(steps), 0
    compiled = []
    for front in fronts:
        if at + len(front) > size:
            at = 0
        for offset, position in enumerate(front):
            rows[position] = fixed + at + offset
        compiled.append(_wavefront(shape, steps, front, rows, fixed + at))
        at += len(front)
    return tuple(compiled), fixed + size, rows


def _wavefront(shape: PipelineShape, steps: tuple[Step, ...], front: list[int], rows: list[int], first_row: int) -> Wavefront:
    chosen = [steps[position] for position in front]

    def column(values: list[int]) -> Rows:
        return np.array(values, dtype=np.int64)

    def inputs(index: int) -> tuple[Rows, Rows]:
        found = [step.inputs[index] if len(step.inputs) > index else None for step in chosen]
        return column([rows[one[0]] if one else 0 for one in found]), column([int(one[1]) if one else 0 for one in found])

    return Wavefront(
        task_class=column([step.task_class for step in chosen]),
        micro_batch=column([shape.micro_batch_of_step(step.task) for step in chosen]),
        previous=column([rows[step.previous] if step.previous >= 0 else 1 + step.rank for step in chosen]),
        inputs=tuple(inputs(index) for index in range(max(1, *(len(step.inputs) for step in chosen)))),
        out=slice(first_row, first_row + len(chosen)),
    )


@lru_cache(maxsize=128)
def compiled(shape: PipelineShape) -> Program:
    """The program of a pipeline. Raises ``ValueError`` for a shape whose ranks would wait for each other for ever.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    Program
        Kept for the next strategies of the same shape.
    """
    steps, classes = _in_dependency_order(shape)
    depth = _depths(steps)
    wavefronts, num_rows, rows = _wavefronts(shape, steps, depth)
    counts = np.bincount([step.task_class for step in steps], minlength=len(classes))
    lasts = {step.rank: position for position, step in enumerate(steps)}
    return Program(
        shape=shape,
        classes=classes,
        class_counts=counts,
        steps=steps,
        fronts=tuple(depth),
        rows=tuple(rows),
        wavefronts=wavefronts,
        num_rows=num_rows,
        last_rows=np.array([rows[lasts[rank]] for rank in range(shape.pp)]),
        last_positions=tuple(lasts[rank] for rank in range(shape.pp)),
    )
