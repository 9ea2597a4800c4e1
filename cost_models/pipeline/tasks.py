"""What a pipeline rank executes, one task at a time, and where each chunk's neighbours sit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import Schedule


class Pass(IntEnum):
    """What a task computes for one chunk of layers and one micro batch."""

    FORWARD = 0
    BACKWARD = 1  # gradients of inputs and weights together
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3
    PAIR = 4  # the forward of one micro batch merged with the backward of another


FORWARDS = (Pass.FORWARD, Pass.PAIR)  # what has a forward, and what sends a gradient on
BACKWARDS = (Pass.BACKWARD, Pass.INPUT_GRADIENT, Pass.PAIR)


NO_BACKWARD = -1


class Task(NamedTuple):
    """One entry of a rank's order; the backward of a ``PAIR`` has a chunk and a micro batch of its own."""

    kind: Pass
    chunk: int
    micro_batch: int
    backward_chunk: int = NO_BACKWARD
    backward_micro_batch: int = NO_BACKWARD

    @property
    def backward(self) -> tuple[int, int]:
        """Chunk and micro batch of what is no forward."""
        pair = self.kind is Pass.PAIR
        return (self.backward_chunk, self.backward_micro_batch) if pair else (self.chunk, self.micro_batch)


_PASSES = tuple(Pass)


def task_of(row: Sequence[int]) -> Task:
    """A task from its numbers.

    Parameters
    ----------
    row : sequence of int
        The fields of a task.

    Returns
    -------
    Task
    """
    return Task(_PASSES[row[0]], *row[1:])


Table = NDArray[np.int64]  # [task, field]
Tables = tuple[Table, ...]  # [rank]
Orders = tuple[tuple[Task, ...], ...]  # [rank][position]
Place = tuple[int, int]  # rank, chunk


@dataclass(frozen=True)
class PipelineShape:
    """What decides the order of tasks: one compiled program serves every strategy that shares it.

    ``group_size``: micro batches that the interleaved schedule passes through one chunk before the next.
    ``merge_pairs``: forwards and backwards of the steady state run as one task. ``detach_weight_gradients``: DualPipeV's
    cool-down splits its backwards too. ``num_microbatches`` counts both directions.
    """

    schedule: Schedule
    pp: int
    vpp: int
    num_microbatches: int
    group_size: int = 0
    merge_pairs: bool = False
    detach_weight_gradients: bool = False

    @property
    def num_chunks(self) -> int:
        """Chunks of layers on a rank; both directions of DualPipe hold one."""
        return 2 if self.schedule is Schedule.DUALPIPE else self.vpp

    @property
    def num_passes(self) -> int:
        """Forwards of one chunk on a rank in a step."""
        return self.num_microbatches // 2 if self.schedule is Schedule.DUALPIPE else self.num_microbatches

    @property
    def num_tasks(self) -> int:
        """Tasks of all ranks; weight gradients count as if every backward were split, where any is."""
        return self.pp * self.num_chunks * self.num_passes * (3 if self.schedule.splits_backward else 2)

    @property
    def period(self) -> int:
        """Micro batches after which the steady state of every rank's order repeats."""
        return (self.group_size or self.pp) * (2 if self.schedule is Schedule.DUALPIPE else 1)


def previous_place(shape: PipelineShape, rank: int, chunk: int) -> Place | None:
    """Where the forward that feeds a chunk runs, ``None`` for the first of all.

    A loop leads from the last rank back to the first; a V turns round on the last rank; DualPipe's second chunk is the
    pipeline of the other direction.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.
    rank : int
        Pipeline rank, 0 for the first.
    chunk : int
        Chunk of layers on the rank, 0 for its first virtual stage.

    Returns
    -------
    tuple of int or None
        Rank and chunk.
    """
    last = shape.pp - 1
    if shape.schedule is Schedule.DUALPIPE:
        before = rank - 1 if chunk == 0 else rank + 1
        return (before, chunk) if 0 <= before <= last else None
    if shape.schedule.is_vee and chunk % 2:
        return (rank + 1, chunk) if rank < last else (rank, chunk - 1)
    if rank > 0:
        return rank - 1, chunk
    return None if chunk == 0 else (0 if shape.schedule.is_vee else last, chunk - 1)


def next_places(shape: PipelineShape) -> dict[Place, Place]:
    """The reverse of ``previous_place`` for every chunk that feeds another.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.

    Returns
    -------
    dict
        From rank and chunk to rank and chunk.
    """
    places = [(rank, chunk) for rank in range(shape.pp) for chunk in range(shape.num_chunks)]
    return {before: place for place in places if (before := previous_place(shape, *place)) is not None}
