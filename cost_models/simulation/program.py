"""Tasks of a pipeline with their dependencies, compiled once for each shape: wavefronts for columns, a list for one row."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.schedules.orders import next_places, previous_place, rank_tables
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import BACKWARDS, FORWARDS, Pass, Place, Table, Task, task_of
from documents.late_methods import dataclass
from documents.sentences import Sentence

Rows = NDArray[np.int64]

MOST_KEPT = 1_000_000  # tasks of all cached programs; each takes up to 400 bytes
NOTHING = -1  # marks a task that waits for nothing


class TaskClass(NamedTuple):
    """Tasks with the same duration for every micro batch: one row of a table of durations."""

    kind: Pass
    rank: int
    chunk: int
    backward_chunk: int = -1


class Step(NamedTuple):
    """One task; ``previous`` is the position of its predecessor on the same rank, -1 for the first."""

    rank: int
    task: Task
    task_class: int
    previous: int


class Wavefront(NamedTuple):
    """Tasks of different ranks that do not wait for each other; all arrays have one entry a task.

    ``previous`` and the first array of each of ``inputs`` are rows of the ring of end times. ``out`` is the block of rows that
    the wavefront fills. The second array of ``inputs`` is 1 if the input comes from another rank. There are two inputs if any
    task has two.
    """

    task_class: Rows
    micro_batch: Rows
    previous: Rows
    inputs: tuple[tuple[Rows, Rows], ...]
    out: slice


@dataclass(frozen=True)
class Waits:
    """Positions of the tasks that each task waits for, ``[task]``, -1 for none.

    ``previous`` is on the same rank. ``inputs`` are up to two outputs, the first before the second. ``crosses`` is 1 if an input
    comes from another rank.
    """

    previous: Rows
    inputs: tuple[Rows, Rows]
    crosses: tuple[Rows, Rows]


@dataclass(frozen=True)
class Program:
    """A compiled pipeline: everything except the durations; all columns are ``[task]``.

    A task's position follows all tasks that it waits for: tasks are sorted by wavefront, then by rank. The ring has
    ``num_rows`` rows: row 0 is time zero, rows 1 to ``pp`` are the ranks' starts, the others are end times that are still needed.
    """

    shape: PipelineShape
    classes: tuple[TaskClass, ...]
    class_counts: Rows  # how often each class runs
    tasks: Table  # [task, field of ``Task``]
    ranks: Rows
    task_class: Rows
    waits: Waits
    fronts: Rows  # wavefront
    rows: Rows  # rows of the ring
    num_rows: int
    last_positions: Rows  # [rank]

    @property
    def num_tasks(self) -> int:
        """Tasks of all ranks."""
        return len(self.tasks)

    @property
    def num_fronts(self) -> int:
        """Number of wavefronts: the longest chain of tasks that wait for each other."""
        return int(self.fronts[-1]) + 1

    @property
    def last_rows(self) -> Rows:
        """Rows of each rank's last task, ``[rank]``."""
        return self.rows[self.last_positions]

    @cached_property
    def micro_batch(self) -> Rows:
        """The step's micro batch of each task; for a pair, the micro batch of its forward.

        Tasks count the micro batches of their stream. The second stream takes the second half.
        """
        _, chunk, micro_batch = self.tasks.T[:3]
        found: Rows = micro_batch + self.shape.first_micro_batch(chunk)
        return found

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All tasks one by one."""
        columns = (self.ranks.tolist(), self.tasks.tolist(), self.task_class.tolist(), self.waits.previous.tolist())
        return tuple(Step(rank, task_of(row), *more) for rank, row, *more in zip(*columns, strict=True))

    @cached_property
    def waiting(self) -> list[tuple[int, ...]]:
        """For every task its rank, class, micro batch, predecessor, and each input with whether it crosses ranks."""
        (first, second), (first_crosses, second_crosses) = self.waits.inputs, self.waits.crosses
        columns = (
            self.ranks,
            self.task_class,
            self.micro_batch,
            self.waits.previous,
            first,
            first_crosses,
            second,
            second_crosses,
        )
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def wavefronts(self) -> tuple[Wavefront, ...]:
        """All tasks, one wavefront at a time."""
        rows = np.append(self.rows, 0)  # a task that waits for nothing reads time zero
        previous = np.where(self.waits.previous == NOTHING, 1 + self.ranks, rows[self.waits.previous])
        first, second = ((rows[source], crosses) for source, crosses in zip(self.waits.inputs, self.waits.crosses, strict=True))
        sizes = np.bincount(self.fronts)
        ends = np.cumsum(sizes)
        have_two = np.logical_or.reduceat(self.waits.inputs[1] != NOTHING, ends - sizes).tolist()
        found, begin = [], 0
        for end, has_two in zip(ends.tolist(), have_two, strict=True):
            row = int(self.rows[begin])
            inputs = (first, second) if has_two else (first,)
            found.append(
                Wavefront(
                    self.task_class[begin:end],
                    self.micro_batch[begin:end],
                    previous[begin:end],
                    tuple((source[begin:end], crosses[begin:end]) for source, crosses in inputs),
                    slice(row, row + end - begin),
                )
            )
            begin = end
        return tuple(found)


def _waits(shape: PipelineShape, tasks: Table, ranks: Rows) -> Waits:
    """Dependencies of the tasks, which are listed rank by rank."""
    kind, chunk, micro_batch, backward_chunk, backward_micro_batch = tasks.T
    is_pair, has_forward, has_backward = kind == Pass.PAIR, np.isin(kind, FORWARDS), np.isin(kind, BACKWARDS)
    back_chunk, back = np.where(is_pair, backward_chunk, chunk), np.where(is_pair, backward_micro_batch, micro_batch)
    chunks, following = shape.num_chunks, next_places(shape)
    places: list[Place | None] = [(rank, each) for rank in range(shape.pp) for each in range(chunks)]
    number = {place: index for index, place in enumerate(places)}
    before = np.array([number.get(previous_place(shape, *place), NOTHING) for place in places if place])
    behind = np.array([number.get(following.get(place), NOTHING) for place in places if place])
    here, back_here = ranks * chunks + chunk, ranks * chunks + back_chunk
    forward, backward = np.full((2, len(places), shape.num_passes), NOTHING)  # tasks that yield an output, [place, micro batch]
    forward[here[has_forward], micro_batch[has_forward]] = np.flatnonzero(has_forward)
    backward[back_here[has_backward], back[has_backward]] = np.flatnonzero(has_backward)
    # A forward waits for the forward before it; a backward for the backward after it or, on the last place, for its forward.
    source, back_source = before[here], behind[back_here]
    fed, is_last = has_forward & (source != NOTHING), back_source == NOTHING
    first = np.where(fed, forward[source, micro_batch], NOTHING)
    second = np.where(is_last, forward[back_here, back], backward[back_source, back])
    second[~has_backward] = NOTHING
    first_crosses = fed & (source // chunks != ranks)
    second_crosses = has_backward & ~is_last & (back_source // chunks != ranks)
    previous = np.arange(-1, len(tasks) - 1)
    previous[np.flatnonzero(np.diff(ranks, prepend=-1))] = NOTHING
    return Waits(  # a single input is the first
        previous,
        (np.where(fed, first, second), np.where(fed, second, NOTHING)),
        (np.where(fed, first_crosses, second_crosses).astype(np.int64), (fed & second_crosses).astype(np.int64)),
    )


def _depths(shape: PipelineShape, waits: Waits, begins: list[int]) -> Rows:
    """Length of the longest chain of tasks before each; rank r's tasks are those from ``begins[r]`` to ``begins[r + 1]``.

    Raises ``ValueError`` if ranks wait for each other.
    """
    first, second = (source.tolist() for source in waits.inputs)
    unknown = NOTHING - 1
    depth = [unknown] * len(first) + [NOTHING]  # the last entry stands for no task
    upcoming, blocked = begins[:-1], dict[int, list[int]]()  # ranks that wait for a task
    runnable = list(range(shape.pp))
    while runnable:
        rank = runnable.pop()
        task = upcoming[rank]
        longest = depth[task - 1] if task > begins[rank] else NOTHING
        while task < begins[rank + 1]:
            one, other = depth[first[task]], depth[second[task]]
            if one == unknown or other == unknown:
                blocked.setdefault(first[task] if one == unknown else second[task], []).append(rank)
                break
            longest = 1 + max(longest, one, other)
            depth[task] = longest
            if task in blocked:
                runnable += blocked.pop(task)
            task += 1
        upcoming[rank] = task
    if upcoming != begins[1:]:
        raise ValueError(Sentence("{}: the ranks wait for each other with {}", shape.schedule.label, shape))
    return np.array(depth[:-1])


def _ring(pp: int, fronts: Rows, waits: Waits, last_positions: Rows) -> tuple[Rows, int]:
    """Every task's row in a ring that is long enough for all needed end times, and the number of rows."""
    sizes = np.bincount(fronts)
    ends = np.cumsum(sizes)
    number = len(fronts)
    sources = np.stack([waits.previous, *waits.inputs])
    oldest = np.minimum.reduceat(np.where(sources == NOTHING, number, sources).min(axis=0), ends - sizes)
    reach = max(int((ends - oldest).max()), number - int(last_positions.min()))
    size = reach + int(sizes.max())  # blocks do not wrap: a block that would starts again at the ring's beginning
    fixed = 1 + pp
    begins, at = [], 0
    for width in sizes.tolist():
        if at + width > size:
            at = 0
        begins.append(fixed + at)
        at += width
    rows: Rows = np.arange(number) + np.repeat(np.array(begins) - (ends - sizes), sizes)
    return rows, fixed + size


def compiled(shape: PipelineShape) -> Program:
    """The program of a pipeline, cached while there is room. Raises ``ValueError`` if its ranks would deadlock."""
    program = _KEPT.pop(shape, None) or _compiled(shape)
    _KEPT[shape] = program  # the last that goes
    while len(_KEPT) > 1 and sum(kept.num_tasks for kept in list(_KEPT.values())) > MOST_KEPT:
        _KEPT.pop(next(iter(list(_KEPT))), None)  # another thread may have been here
    return program


_KEPT: dict[PipelineShape, Program] = {}


def _compiled(shape: PipelineShape) -> Program:
    tables = rank_tables(shape)
    lengths = [len(table) for table in tables]
    tasks, ranks = np.concatenate(tables), np.repeat(np.arange(shape.pp), lengths)
    waits = _waits(shape, tasks, ranks)
    depth = _depths(shape, waits, [0, *np.cumsum(lengths).tolist()])
    order = np.argsort(depth, kind="stable")
    position = np.empty(len(order) + 1, dtype=np.int64)
    position[order], position[NOTHING] = np.arange(len(order)), NOTHING
    waits = Waits(
        position[waits.previous[order]],
        (position[waits.inputs[0][order]], position[waits.inputs[1][order]]),
        (waits.crosses[0][order], waits.crosses[1][order]),
    )
    fronts, last_positions = depth[order], position[np.cumsum(lengths) - 1]
    rows, num_rows = _ring(shape.pp, fronts, waits, last_positions)
    classes, of_task = _classes(tasks, ranks)
    return Program(
        shape=shape,
        classes=classes,
        class_counts=np.bincount(of_task),
        tasks=tasks[order],
        ranks=ranks[order],
        task_class=of_task[order],
        waits=waits,
        fronts=fronts,
        rows=rows,
        num_rows=num_rows,
        last_positions=last_positions,
    )


def _classes(tasks: Table, ranks: Rows) -> tuple[tuple[TaskClass, ...], Rows]:
    """The classes in the order in which the ranks reach them, and the class of every task."""
    kind, chunk, _, backward_chunk, _ = tasks.T
    columns = np.stack([kind, ranks, chunk, backward_chunk], axis=1)
    span = columns.max(axis=0) + 2  # -1 is a value, too
    code = np.ravel_multi_index(tuple((columns + 1).T), tuple(span))
    _, begins, index = np.unique(code, return_index=True, return_inverse=True)
    place = np.empty_like(begins)
    place[np.argsort(begins)] = np.arange(len(begins))
    first = columns[np.sort(begins)].tolist()
    return tuple(TaskClass(Pass(one), *more) for one, *more in first), place[index]
