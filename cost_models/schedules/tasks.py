"""Tasks of a pipeline rank."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pass(IntEnum):
    """The work of a task on one chunk of layers and one micro batch."""

    FORWARD = 0
    BACKWARD = 1  # gradients of inputs and weights together
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3
    PAIR = 4  # the forward of one micro batch merged with the backward of another


FORWARDS = (Pass.FORWARD, Pass.PAIR)
BACKWARDS = (Pass.BACKWARD, Pass.INPUT_GRADIENT, Pass.PAIR)  # they send a gradient on


NO_BACKWARD = -1


class Task(NamedTuple):
    """One entry of a rank's order; the backward of a ``PAIR`` has its own chunk and micro batch."""

    kind: Pass
    chunk: int
    micro_batch: int
    backward_chunk: int = NO_BACKWARD
    backward_micro_batch: int = NO_BACKWARD

    @property
    def backward(self) -> tuple[int, int]:
        """Chunk and micro batch of the task's backward; of the task itself if it is not a pair."""
        pair = self.kind is Pass.PAIR
        return (self.backward_chunk, self.backward_micro_batch) if pair else (self.chunk, self.micro_batch)


Numbers = NDArray[np.int64]
Table = NDArray[np.int64]  # [task, field]
Tables = tuple[Table, ...]  # [rank]
Orders = tuple[tuple[Task, ...], ...]  # [rank][position]
Place = tuple[int, int]  # rank, chunk

_PASSES = tuple(Pass)


def task_of(row: Sequence[int]) -> Task:
    """The task whose fields are the numbers of a row."""
    return Task(_PASSES[row[0]], *row[1:])


def tasks_of_kind(kind: Pass, chunk: Numbers, micro_batch: Numbers) -> Table:
    """Tasks of one kind, which is not ``PAIR``."""
    none = np.full(len(chunk), NO_BACKWARD)
    return np.stack([np.full(len(chunk), kind), chunk, micro_batch, none, none], axis=1)
