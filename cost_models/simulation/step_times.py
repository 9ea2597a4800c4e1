"""Simulates steps task by task: all candidates of one pipeline in lockstep, with the layer costs of the closed form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.schedules.orders import next_places, previous_place
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import BACKWARDS, FORWARDS, Pass, Place
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.lockstep import Durations, ends_s
from cost_models.simulation.program import Program, TaskClass, compiled
from cost_models.simulation.steady import steady_of
from cost_models.step.composition import StepTime, at_kind, closed_form, composed_of, with_uneven_experts
from cost_models.step.data_parallel import exchange_beyond_compute_s, exchange_of_step_s
from cost_models.step.priced_groups import PricedGroup, priced_batch, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate

LEAST_PERIODS = 4  # periods to simulate: fill, two that can repeat each other, drain
MOST_TASKS = 524_288  # tasks to simulate: a second, 300 MB


def pipeline_shapes(group: PricedGroup) -> Iterator[tuple[IntColumn, PipelineShape]]:
    """The distinct pipelines of a group, with the indices ``[n]`` of each one's strategies."""
    stages = group.stages
    group_size = group.batch.group_size * stages.schedule.rules.in_groups
    first, index = distinct_rows([group.num_microbatches.astype(np.int64), group_size])
    for number, row in enumerate(first):
        yield np.flatnonzero(index == number), stages.shape(int(group.num_microbatches[row]), int(group_size[row]))


class GroupTasks:
    """Durations of the tasks of a group's candidates; every rank of the group is its own kind.

    A send that is not overlapped occupies its sender. The hidden part of an overlapped send delays only the receiver. Gradients
    accumulate with the weight gradients. A merged pair saves the communication that its layers hide for each other.
    """

    def __init__(self, group: PricedGroup) -> None:
        stages = group.stages
        self._chunks = group.chunks
        self._merged, self._relays = group.merged, stages.relays
        self._savings: dict[tuple[int, int], Floats] = {}  # savings of the pairs of chunks met so far, ``[kind, n]``
        self.send_s = group.p2p_s / (2.0 * stages.num_chunks)
        self.hop_s = group.p2p_masked_s / (2.0 * stages.num_chunks)
        self._accumulation_s = group.sharded.accumulation_s / stages.num_chunks
        self._host_s = group.host_micro_batch_s / stages.vpp

    def of(self, program: Program) -> tuple[Floats, IntColumn]:
        """Seconds of the program's task classes, ``[class, n]``, and the number of messages that each sends, ``[class]``."""
        sends = _num_sends(program.shape)
        durations = np.empty((len(sends), len(self.send_s)))
        for (kind, chunk, backward_chunk), rows, ranks in _alike(program.shape):
            durations[rows] = self._seconds(kind, ranks, chunk, backward_chunk, sends[rows][:, None])
        return durations, sends

    @staticmethod
    def num_sends(shape: PipelineShape, following: dict[Place, Place], task_class: TaskClass) -> int:
        """Number of messages to other ranks at the end of a task; ``following`` are the ``next_places`` of the shape."""
        kind, rank, chunk, backward_chunk = task_class
        places: list[Place | None] = []
        if kind in FORWARDS:
            places.append(following.get((rank, chunk)))
        if kind in BACKWARDS:
            places.append(previous_place(shape, rank, backward_chunk if kind is Pass.PAIR else chunk))
        return sum(place is not None and place[0] != rank for place in places)

    def saving_s(self, task_class: TaskClass) -> Floats:
        """Seconds of expert communication that a merged pair hides, ``[n]``; zero for all other tasks."""
        return self._saving_s(*task_class)

    def _saving_s(self, kind: Pass, rank: int | IntColumn, chunk: int, backward_chunk: int) -> Floats:
        if kind is not Pass.PAIR or self._merged is None:
            return np.zeros_like(self.send_s)
        if (chunk, backward_chunk) not in self._savings:
            self._savings[chunk, backward_chunk] = self._merged.of(chunk, backward_chunk)
        saving: Floats = self._savings[chunk, backward_chunk][rank]
        return saving

    def relays_s(self, task_class: TaskClass) -> Floats:
        """Seconds of a task's passes for sending outputs of MTP modules to a head elsewhere, ``[n]``."""
        kind, rank, chunk, backward_chunk = task_class
        forward, backward = self._relays
        number = forward[rank, chunk] if kind in FORWARDS else 0
        if kind in BACKWARDS:
            number = number + backward[rank, backward_chunk if kind is Pass.PAIR else chunk]
        seconds: Floats = number * self.send_s
        return seconds

    def duration_s(self, task_class: TaskClass, num_sends: int) -> Floats:
        """Seconds of a task with its ``num_sends`` messages to other ranks, ``[n]``."""
        return self._seconds(*task_class, num_sends)

    def _seconds(self, kind: Pass, rank: int | IntColumn, chunk: int, backward_chunk: int, num_sends: int | IntColumn) -> Floats:
        """Seconds of the tasks of one rank, ``[n]``, or of several, ``[rank, n]``."""
        forward, backward = self._chunks[chunk], self._chunks[backward_chunk if kind is Pass.PAIR else chunk]
        seconds: Floats = num_sends * self.send_s
        if kind in FORWARDS:
            seconds = seconds + forward.forward[rank] + self._host_s
        if kind in (Pass.BACKWARD, Pass.PAIR):
            saving_s = self._saving_s(kind, rank, chunk, backward_chunk)
            seconds = seconds + backward.backward[rank] + self._accumulation_s[rank] - saving_s
        if kind is Pass.INPUT_GRADIENT:
            seconds = seconds + backward.backward[rank] - backward.weight_gradient[rank]
        if kind is Pass.WEIGHT_GRADIENT:
            seconds = seconds + backward.weight_gradient[rank] + self._accumulation_s[rank]
        return seconds


@lru_cache(maxsize=128)
def _alike(shape: PipelineShape) -> tuple[tuple[tuple[Pass, int, int], IntColumn, IntColumn], ...]:
    """Kinds of task and their chunks, with the rows of their classes and the ranks of these."""
    found: dict[tuple[Pass, int, int], list[tuple[int, int]]] = {}
    for row, (kind, rank, chunk, backward_chunk) in enumerate(compiled(shape).classes):
        found.setdefault((kind, chunk, backward_chunk), []).append((row, rank))
    return tuple((kind, *np.array(rows).T) for kind, rows in found.items())


@lru_cache(maxsize=128)  # about the number of programs that ``compiled`` caches
def _num_sends(shape: PipelineShape) -> IntColumn:
    following = next_places(shape)
    sends = np.array([GroupTasks.num_sends(shape, following, c) for c in compiled(shape).classes], dtype=np.int64)
    sends.flags.writeable = False
    return sends


def exchange_left_s(group: PricedGroup, constants: Constants) -> tuple[Floats, Floats]:
    """Seconds of each rank's gradient reduction and weight gathering that passes do not hide, ``[rank, n]`` each."""
    left = exchange_beyond_compute_s(
        group.batch, group.sharded.exchange, group.alone.forward, group.alone.backward, constants.dp_exposed_fraction
    )
    reduce_s, gather_s = (np.broadcast_to(column, (group.stages.pp, len(group.batch))) for column in left)
    return reduce_s, gather_s


class Played(NamedTuple):
    """Result of simulating a pipeline, ``[rank, n]``: ends, busy seconds, seconds saved by merged pairs, messages sent."""

    ends_s: Floats
    busy_s: Floats
    saving_s: Floats
    sends: Floats


def _played(
    shape: PipelineShape,
    num_microbatches: int,
    tasks: GroupTasks | _Together,
    columns: IntColumn,
    start_s: Floats,
    *,
    parts: bool,
) -> tuple[Played, NDArray[np.bool_]]:
    """Simulate ``shape`` and add periods up to ``num_microbatches``; also return whether each candidate repeats.

    Without ``parts`` only the ends are known; the rest is ``nan``.
    """
    program = compiled(shape)
    durations, num_sends = tasks.of(program)
    seconds = durations[:, columns]
    ends = ends_s(program, Durations(seconds, tasks.hop_s[columns], start_s[:, columns]))
    periods = (num_microbatches - shape.num_microbatches) // shape.period
    counts = program.class_counts
    if periods:
        repeats = ~np.isnan(ends.growth_s)
        last = ends.rank_s + periods * np.where(repeats, ends.growth_s, 0.0)
        steady = steady_of(shape)
        counts = counts + periods * (0 if steady is None else steady.class_counts)
    else:
        repeats, last = np.ones(len(columns), dtype=np.bool_), ends.rank_s
    if not parts:
        return Played(last, *(np.full_like(last, np.nan) for _ in Played._fields[1:])), repeats
    busy, saving = np.zeros_like(last), np.zeros_like(last)
    for task_class, count, each in zip(program.classes, counts, seconds, strict=True):
        busy[task_class.rank] += count * each
        if task_class.kind is Pass.PAIR:
            saving[task_class.rank] += count * tasks.saving_s(task_class)[columns]
    ranks = [task_class.rank for task_class in program.classes]
    sends = np.bincount(ranks, counts * num_sends, shape.pp)
    return Played(last, busy, saving, np.broadcast_to(sends[:, None], last.shape)), repeats


def played_to_the_end(
    shape: PipelineShape, tasks: GroupTasks | _Together, start_s: Floats, columns: IntColumn, *, parts: bool = True
) -> Played:
    """Simulate the chosen candidates with all micro batches, or until a period repeats the one before. ``[rank, len(columns)]``

    Each candidate continues until its own tasks repeat, so it costs what it would alone. Candidates that do not repeat within
    ``MOST_TASKS`` give ``nan``.

    Parameters
    ----------
    start_s : ``[rank, n]``
        When each rank can start.
    columns
        Candidates of the group that have this shape.
    parts
        Count what the ranks do, too; else only their ends are known.
    """
    total, period = shape.num_microbatches, shape.period
    whole = np.full((len(Played._fields), shape.pp, len(columns)), np.nan)
    left = np.arange(len(columns))
    length = LEAST_PERIODS * period + total % period
    while len(left):
        if 2 * length >= total or not shape.schedule.rules.has_steady_state:
            length = total
        some = replace(shape, num_microbatches=length)
        if some.num_tasks > MOST_TASKS:
            break
        part, done = _played(some, total, tasks, columns[left], start_s, parts=parts)
        whole[:, :, left] = part
        left = left[~done]
        length += (length // period) * period
    whole[:, :, left] = np.nan
    return Played(*whole)


def _first_starts_s(group: PricedGroup, tasks: GroupTasks, gather_s: Floats) -> Floats:
    """When each rank starts its first forward, ``[rank, n]``: after the first chunk has passed the ranks before it."""
    begins = [gather_s[0]]
    for rank in range(1, group.stages.pp):
        before_s = tasks.duration_s(TaskClass(Pass.FORWARD, rank - 1, 0), 1)
        begins.append(np.maximum(gather_s[rank], begins[-1] + before_s + tasks.hop_s))
    return np.stack(begins)


def simulated(group: PricedGroup, constants: Constants) -> StepTime:
    """Simulated steps of one group, ``[n]``; the group must keep every rank as its own kind.

    A rank starts when it has gathered its weights and ends when its gradients are reduced, as far as passes do not hide that. The
    optimizer follows the last rank, or each rank separately if steps overlap.
    """
    ((_, time),) = simulated_together([group], constants)
    return time


class _Together:
    """``GroupTasks`` of several groups, side by side."""

    def __init__(self, parts: Sequence[tuple[GroupTasks, IntColumn]]) -> None:
        self._parts = parts
        self.hop_s = np.concatenate([tasks.hop_s[columns] for tasks, columns in parts])

    def of(self, program: Program) -> tuple[Floats, IntColumn]:
        found = [(tasks.of(program), columns) for tasks, columns in self._parts]
        return np.concatenate([seconds[:, columns] for (seconds, _), columns in found], axis=1), found[0][0][1]

    def saving_s(self, task_class: TaskClass) -> Floats:
        return np.concatenate([tasks.saving_s(task_class)[columns] for tasks, columns in self._parts])


def simulated_together(
    groups: Iterable[PricedGroup], constants: Constants, *, parts: bool = True
) -> list[tuple[PricedGroup, StepTime]]:
    """``simulated`` for each group, with the group; equal programs are simulated at once.

    Without ``parts`` only the steps are known, which takes less time; the rest is ``nan``.
    """
    groups = list(groups)
    tasks = [GroupTasks(group) for group in groups]
    left_s = [exchange_left_s(group, constants) for group in groups]
    played = [np.empty((len(Played._fields), group.stages.pp, len(group.batch))) for group in groups]
    alike: dict[PipelineShape, list[tuple[int, IntColumn]]] = {}
    for number, group in enumerate(groups):
        for columns, shape in pipeline_shapes(group):
            alike.setdefault(shape, []).append((number, columns))
    for shape, of_shape in alike.items():
        together = _Together([(tasks[number], columns) for number, columns in of_shape])
        start_s = np.concatenate([left_s[number][1][:, columns] for number, columns in of_shape], axis=1)
        found = np.array(played_to_the_end(shape, together, start_s, np.arange(start_s.shape[1]), parts=parts))
        ends = np.cumsum([len(columns) for _, columns in of_shape])
        for (number, columns), end in zip(of_shape, ends.tolist(), strict=True):
            played[number][:, :, columns] = found[:, :, end - len(columns) : end]
    return [
        (group, _with_closed_form(group, _composed(group, of_group, left, Played(*each), constants, parts=parts), constants))
        for group, of_group, left, each in zip(groups, tasks, left_s, played, strict=True)
    ]


_PARTS = [each.name for each in fields(StepTime) if each.name not in ("step_s", "fidelity")]


def _composed(
    group: PricedGroup, tasks: GroupTasks, left_s: tuple[Floats, Floats], played: Played, constants: Constants, *, parts: bool
) -> StepTime:
    """The step of one group from its simulated tasks."""
    stages, (reduce_s, gather_s), (ends, busy, saving, sends) = group.stages, left_s, played
    ends = ends + reduce_s
    if stages.schedule.rules.overlaps_steps:
        ends = ends - _first_starts_s(group, tasks, gather_s) + gather_s
    pipeline = ends.max(axis=0)
    step_s = pipeline + group.sharded.optimizer_s + constants.step_overhead_s
    if not parts:
        return StepTime(step_s, fidelity="simulated", **dict.fromkeys(_PARTS, np.full_like(step_s, np.nan)))
    critical = busy.argmax(axis=0)
    exchange = at_kind(reduce_s + gather_s, critical)
    bubble = np.maximum(pipeline - at_kind(busy, critical) - exchange, 0.0)
    host = group.host_micro_batch_s * group.num_microbatches
    whole = at_kind(sum(exchange_of_step_s(group.batch, group.sharded.exchange), np.zeros(1)), critical)
    return StepTime(
        step_s=step_s,
        critical=critical,
        bubble_s=bubble,
        pair_saving_s=at_kind(saving, critical),
        p2p_s=at_kind(sends, critical) * tasks.send_s,
        p2p_masked_s=at_kind(sends, critical) * tasks.hop_s,
        data_parallel_s=exchange,
        data_parallel_masked_s=np.maximum(whole - exchange, 0.0),
        host_s=host,
        reduce_left_s=reduce_s,
        gather_left_s=gather_s,
        stage_bubble_s=np.maximum(pipeline - busy - reduce_s - gather_s, 0.0),
        fidelity="simulated",
    )


def _with_closed_form(group: PricedGroup, time: StepTime, constants: Constants) -> StepTime:
    """Simulated step times, with the closed form for candidates that were too long to simulate."""
    unknown = np.isnan(time.step_s)
    if not unknown.any():
        return time
    closed = closed_form(group, constants)
    busy = group.num_microbatches * group.alone.whole
    pipeline = closed.step_s - group.sharded.optimizer_s - constants.step_overhead_s
    closed = replace(closed, stage_bubble_s=np.maximum(pipeline - busy - closed.reduce_left_s - closed.gather_left_s, 0.0))
    names = ("step_s", *_PARTS)
    return replace(time, **{name: np.where(unknown, getattr(closed, name), getattr(time, name)) for name in names})


def simulate(
    workload: Workload,
    batch: StrategyBatch,
    constants: Constants,
    *,
    breakdown: bool = False,
    memory: bool = True,
    prices: LayerPrices | None = None,
) -> Estimate:
    """Like ``cost_models.step.composition.estimate``, with steps simulated task by task. ``[n]``

    Strategies of one pipeline run in lockstep; few run one by one, with equal results. A step of more than ``MOST_TASKS`` tasks
    takes the closed form. Without ``memory`` the lower bound is ``nan`` as well. Raises ``ValueError`` like ``estimate``, and for
    a schedule that its micro batches do not fill.
    """
    priced = priced_batch(workload, batch, constants) if prices is None else priced_by(prices, batch)
    together = partial(simulated_together, parts=memory)
    found = composed_of(priced, together, merge=False, breakdown=breakdown, memory=memory)
    return with_uneven_experts(workload, batch, constants, found) if breakdown else found
