"""Evaluation of a compiled pipeline: all candidates in lockstep as columns, or one with every task's times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.simulation.program import Program
from cost_models.simulation.steady import steady_of
from documents.late_methods import dataclass

Floats = NDArray[np.float64]

RING_BYTES = 2**20  # end times of one block of candidates stay in the processor's cache
STEPS_A_FRONT = 28  # this many tasks on plain floats take as long as one wavefront of columns
LEAST_BLOCK = 64  # candidates; smaller blocks cost more in calls than they save in cache


@dataclass(frozen=True)
class Durations:
    """Durations in seconds for ``n`` candidates of one program.

    ``tasks`` ``[class, n]`` are in the order of ``Program.classes``. ``hop_s`` ``[n]`` is the time from the end of a task to the
    arrival of its output on another rank. ``start_s`` ``[rank, n]`` is when a rank can start. ``micro_batch_factor``
    ``[micro batch, n]`` multiplies every pass of a micro batch (packed sequences, imbalance); ``None``: 1. A merged pair uses the
    factor of its forward's micro batch.
    """

    tasks: Floats
    hop_s: Floats
    start_s: Floats
    micro_batch_factor: Floats | None = None

    def take(self, columns: slice) -> Durations:
        """The durations of some candidates."""
        factor = self.micro_batch_factor if self.micro_batch_factor is None else self.micro_batch_factor[:, columns]
        return Durations(self.tasks[:, columns], self.hop_s[columns], self.start_s[:, columns], factor)


@dataclass(frozen=True)
class Ends:
    """End of each rank's last task, ``rank_s`` ``[rank, n]``.

    ``growth_s`` ``[n]`` is the time that another period adds to all of them; ``nan`` for candidates that have not reached
    steady state.
    """

    rank_s: Floats
    growth_s: Floats


# Relative precision to which two moments must differ by the same time everywhere.
STEADY_PRECISION = 1e-13


def ends_s(program: Program, durations: Durations) -> Ends:
    """End times of the ranks of n candidates.

    Few candidates of a short pipeline run on plain floats; the results are equal to the last bit.
    """
    n = durations.tasks.shape[1]
    if n * program.num_tasks <= STEPS_A_FRONT * program.num_fronts:
        columns = [np.array(task_times_s(program, durations, column)[1]) for column in range(n)]
        times = np.stack(columns, axis=1)
        last = times[program.last_positions]
        steady = steady_of(program.shape)
        if steady is None:
            return Ends(last, np.full(n, np.nan))
        return Ends(last, _growth_s(times[steady.first.positions], times[steady.second.positions]))
    block = max(int(RING_BYTES / (np.dtype(np.float64).itemsize * program.num_rows)), LEAST_BLOCK)
    blocks = [_block(program, durations.take(slice(at, at + block))) for at in range(0, n, block)]
    return Ends(np.concatenate([one.rank_s for one in blocks], axis=1), np.concatenate([one.growth_s for one in blocks]))


def _growth_s(first: Floats, second: Floats) -> Floats:
    growth = second - first
    same = (np.abs(growth - growth[0]) <= STEADY_PRECISION * second).all(axis=0)
    result: Floats = np.where(same, growth[0], np.nan)
    return result


def _block(program: Program, durations: Durations) -> Ends:
    tasks = np.ascontiguousarray(durations.tasks)
    n, pp = tasks.shape[1], program.shape.pp
    ends = np.zeros((program.num_rows, n))
    ends[1 : 1 + pp] = durations.start_s
    hops = np.stack([np.zeros(n), durations.hop_s]) if durations.hop_s.any() else None
    widest = int(np.bincount(program.fronts).max())
    start, other, extra = np.empty((widest, n)), np.empty((widest, n)), np.empty((widest, n))
    steady = steady_of(program.shape)
    first = second = ends[:0]
    for number, front in enumerate(program.wavefronts):
        width = len(front.task_class)
        begin, waited, added = start[:width], other[:width], extra[:width]
        ends.take(front.previous, axis=0, out=begin, mode="clip")  # np.take() costs more than it does
        for source, crosses in front.inputs:
            ends.take(source, axis=0, out=waited, mode="clip")
            if hops is not None:
                waited += hops.take(crosses, axis=0, out=added, mode="clip")
            np.maximum(begin, waited, out=begin)
        tasks.take(front.task_class, axis=0, out=waited, mode="clip")
        if durations.micro_batch_factor is not None:
            waited *= durations.micro_batch_factor[front.micro_batch]
        np.add(begin, waited, out=ends[front.out])
        if steady is not None and number == steady.first.front:
            first = ends[steady.first.rows]
        if steady is not None and number == steady.second.front:
            second = ends[steady.second.rows]
    return Ends(ends[program.last_rows], np.full(n, np.nan) if steady is None else _growth_s(first, second))


def task_times_s(program: Program, durations: Durations, column: int) -> tuple[list[float], list[float]]:
    """Start and end seconds of every task of one candidate, in the order of ``Program.steps``."""
    tasks, hop_s = durations.tasks[:, column].tolist(), float(durations.hop_s[column])
    ranks = durations.start_s[:, column].tolist()
    factor = None if durations.micro_batch_factor is None else durations.micro_batch_factor[:, column].tolist()
    starts: list[float] = []
    ends: list[float] = []
    for rank, task_class, micro_batch, previous, first, first_crosses, second, second_crosses in program.waiting:
        start = ends[previous] if previous >= 0 else ranks[rank]
        if first >= 0:
            arrival = ends[first] + hop_s if first_crosses else ends[first]
            if arrival > start:
                start = arrival
        if second >= 0:
            arrival = ends[second] + hop_s if second_crosses else ends[second]
            if arrival > start:
                start = arrival
        starts.append(start)
        ends.append(start + (tasks[task_class] if factor is None else tasks[task_class] * factor[micro_batch]))
    return starts, ends
