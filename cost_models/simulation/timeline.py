"""Timeline of one strategy's step: bars for the work of every rank on every stream, from start to end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from cost_models.simulation.replay import Replay
from cost_models.simulation.task_bars import Kind, Stream, TaskBars
from cost_models.step.data_parallel import exchange_of_step_s
from documents.late_methods import dataclass
from documents.sentences import Sentence

Integers = NDArray[np.int64]

MAX_TASKS = 100_000
MAX_BARS = 1_000_000  # half a gigabyte during conversion to JSON
REDUCING = (Pass.BACKWARD, Pass.WEIGHT_GRADIENT, Pass.PAIR)  # tasks whose end leaves gradients to reduce


@dataclass(frozen=True)
class Bars:
    """Bars as columns ``[bar]``; ``chunk`` and ``micro_batch`` are -1 for a bar without one."""

    rank: Integers
    stream: Integers  # codes of ``Stream``
    kind: Integers  # codes of ``Kind``
    chunk: Integers
    micro_batch: Integers
    start_s: Floats
    end_s: Floats

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True)
class Timeline:
    """Bars of all ranks by rank, stream and start. Bars of one rank and stream do not overlap, and the last ends with the step.

    ``bubble_s`` ``[rank]`` is idle time. If the schedule ``overlaps_steps``, each rank's time starts with its own step.
    """

    step_time_s: float
    bars: Bars
    bubble_s: Floats

    @property
    def num_ranks(self) -> int:
        """Pipeline ranks; ranks of other process groups do the same."""
        return len(self.bubble_s)


def num_tasks(workload: Workload, strategy: ParallelStrategy) -> int:
    """Number of tasks of a step: passes of chunks, and separate weight gradients."""
    return _shape(workload, strategy).num_tasks


def check_length(workload: Workload, strategy: ParallelStrategy) -> None:
    """Raise ``ValueError`` for a step of more than ``MAX_TASKS``, with the reason; cheap, before a replay."""
    count = num_tasks(workload, strategy)
    if count > MAX_TASKS:
        raise ValueError(_too_long(_shape(workload, strategy), Sentence("{:,} tasks", count), f"{MAX_TASKS:,}"))


def _shape(workload: Workload, strategy: ParallelStrategy) -> PipelineShape:
    m = workload.training.global_batch_size // (strategy.micro_batch_size * strategy.dp)
    return PipelineShape(strategy.schedule, strategy.pp, strategy.vpp, m)


def timeline(workload: Workload, played: Replay, constants: Constants) -> Timeline:
    """Bars of a replayed step, which ends at the time of ``simulate``.

    Raises ``ValueError`` for more than ``MAX_BARS``, with the reason.
    """
    program, gather_s, reduce_s = played.program, played.gather_s, played.reduce_s
    starts, ends = np.array(played.starts_s), np.array(played.ends_s)
    ranks = program.ranks
    origins, last_s = origins_s(played), ends[program.last_positions]
    ended_s = last_s + reduce_s - origins
    pipeline_s = float(ended_s.max())
    optimizer_s = float(played.group.sharded.optimizer_s[0])
    step_time_s = pipeline_s + optimizer_s + constants.step_overhead_s
    updates_s = origins + (ended_s if program.shape.schedule.rules.overlaps_steps else pipeline_s)
    parts = [
        *_task_bars(workload, played, constants, starts, ends),
        *_exchange_bars(played, origins, last_s, ranks, starts, ends),
        *_last_bars(updates_s, optimizer_s, constants.step_overhead_s),
    ]
    busy_s = np.bincount(ranks, weights=ends - starts, minlength=program.shape.pp)
    bubble_s = np.maximum(pipeline_s - busy_s - reduce_s - gather_s, 0.0)
    return Timeline(step_time_s, _arranged(parts, origins, step_time_s), bubble_s)


def origins_s(played: Replay) -> Floats:
    """Seconds at which each rank's time starts in the replay, ``[rank]``.

    It starts with the step, or with the rank's own step if steps overlap.
    """
    if not played.program.shape.schedule.rules.overlaps_steps:
        return np.zeros(played.program.shape.pp)
    firsts = {step.rank: start for step, start in zip(played.program.steps, played.starts_s, strict=True) if step.previous < 0}
    return np.array([firsts[rank] for rank in range(played.program.shape.pp)]) - played.gather_s


def _too_long(shape: PipelineShape, count: str, most: str) -> str:
    return Sentence(
        "pp {} x vpp {} x {:,} micro batches are {}, more than the {} of a timeline",
        shape.pp,
        shape.vpp,
        shape.num_microbatches,
        count,
        most,
    )


def _columns(rank: Integers, stream: Stream, kind: Kind, start_s: Floats, end_s: Floats) -> Bars:
    """Bars without chunk and micro batch."""
    none = np.full(len(rank), -1, dtype=np.int64)
    return Bars(rank, np.full_like(none, stream), np.full_like(none, kind), none, none, start_s, end_s)


def _micro_batches(shape: PipelineShape, chunk: int, numbers: list[int]) -> Integers:
    """The step's numbers of micro batches, from those that tasks count in their stream."""
    return np.array(numbers, dtype=np.int64) + shape.first_micro_batch(np.array(chunk))


def _task_bars(workload: Workload, played: Replay, constants: Constants, starts: Floats, ends: Floats) -> Iterator[Bars]:
    """Bars of all tasks, one class at a time; tasks of one class differ only in their start."""
    program, shape = played.program, played.program.shape
    template = TaskBars(workload, played.group, played.tasks, constants)
    durations, num_sends = played.tasks.of(program)
    patterns = [
        template.of(task_class, float(duration), int(count))
        for task_class, duration, count in zip(program.classes, durations[:, 0], num_sends, strict=True)
    ]
    num_bars = sum(len(pattern) * int(count) for pattern, count in zip(patterns, program.class_counts, strict=True))
    if num_bars > MAX_BARS:
        raise ValueError(_too_long(shape, Sentence("{:,} bars", num_bars), f"{MAX_BARS:,}"))
    members: list[list[int]] = [[] for _ in patterns]
    for position, step in enumerate(program.steps):
        members[step.task_class].append(position)
    for task_class, pattern, positions in zip(program.classes, patterns, members, strict=True):
        if not pattern:
            continue
        steps = [program.steps[position] for position in positions]
        sides = [(task_class.chunk, _micro_batches(shape, task_class.chunk, [step.task.micro_batch for step in steps]))]
        if task_class.kind is Pass.PAIR:
            chunk = task_class.backward_chunk
            sides.append((chunk, _micro_batches(shape, chunk, [step.task.backward_micro_batch for step in steps])))
        of = [sides[-1] if bar.of_backward else sides[0] for bar in pattern]
        begins, width = starts[positions], len(positions)
        yield Bars(
            rank=np.full(width * len(pattern), task_class.rank, dtype=np.int64),
            stream=np.repeat([int(bar.stream) for bar in pattern], width),
            kind=np.repeat([int(bar.kind) for bar in pattern], width),
            chunk=np.repeat([chunk for chunk, _ in of], width),
            micro_batch=np.concatenate([numbers for _, numbers in of]),
            start_s=np.concatenate([begins + bar.start_s for bar in pattern]),
            end_s=np.concatenate([begins + bar.end_s for bar in pattern]),
        )


def _exchange_bars(
    played: Replay, origins_s: Floats, last_s: Floats, ranks: Integers, starts: Floats, ends: Floats
) -> Iterator[Bars]:
    """Bars of weight gathering around the first forwards, and of gradient reduction around the last backwards.

    Passes hide as much as in the closed form: the first forwards of a micro batch, and its last backwards. If a reduction follows
    each backward (ZeRO-2 without a pipeline), all backwards hide it.
    """
    exchange, every = played.group.sharded.exchange, np.arange(len(last_s))
    of_step = exchange_of_step_s(played.group.batch, exchange)
    reduce_s, gather_s = (np.broadcast_to(part[:, 0], last_s.shape) for part in of_step)
    gathered_s = origins_s + gather_s
    yield _columns(every, Stream.DATA_PARALLEL, Kind.GATHER, origins_s, gathered_s)
    hidden_s = np.maximum(reduce_s - played.reduce_s, 0.0)
    if int(exchange.num_reductions[0]) == 1:
        begin_s = np.maximum(last_s - hidden_s, np.minimum(gathered_s, last_s))
        yield _columns(every, Stream.DATA_PARALLEL, Kind.REDUCE, begin_s, last_s + played.reduce_s)
        return
    reducing = [step.task.kind in REDUCING for step in played.program.steps]
    of, from_s, to_s = ranks[reducing], starts[reducing], ends[reducing]
    busy_s = np.bincount(of, weights=to_s - from_s, minlength=len(last_s))
    share = np.minimum(hidden_s / busy_s, 1.0)[of]
    yield _columns(of, Stream.DATA_PARALLEL, Kind.REDUCE, to_s - share * (to_s - from_s), to_s)
    yield _columns(every, Stream.DATA_PARALLEL, Kind.REDUCE, last_s, last_s + played.reduce_s)


def _last_bars(begin_s: Floats, optimizer_s: float, overhead_s: float) -> Iterator[Bars]:
    """Bars of the optimizer, and of the fixed cost of a step."""
    every = np.arange(len(begin_s))
    updated_s = begin_s + optimizer_s
    yield _columns(every, Stream.OPTIMIZER, Kind.OPTIMIZER, begin_s, updated_s)
    yield _columns(every, Stream.OPTIMIZER, Kind.STEP_OVERHEAD, updated_s, updated_s + overhead_s)


def _arranged(parts: list[Bars], origins_s: Floats, step_time_s: float) -> Bars:
    """All bars in order. A transfer ends no later than the start of the next one in its stream, because links do not queue."""
    names = [field.name for field in fields(Bars)]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    for name in ("start_s", "end_s"):
        columns[name] = np.clip(columns[name] - origins_s[columns["rank"]], 0.0, step_time_s)
    order = np.lexsort((columns["start_s"], columns["stream"], columns["rank"]))
    columns = {name: column[order] for name, column in columns.items()}
    rank, stream, start_s, end_s = (columns[name] for name in ("rank", "stream", "start_s", "end_s"))
    follows = (rank[1:] == rank[:-1]) & (stream[1:] == stream[:-1])
    end_s[:-1][follows] = np.minimum(end_s[:-1], start_s[1:])[follows]
    shown = end_s > start_s
    return Bars(**{name: column[shown] for name, column in columns.items()})
