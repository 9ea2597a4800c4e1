"""The queue of chunks that can be priced at the same time, since their prices do not wait for each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from search.executors.executor import Piece
from search.exhaustive.lattice_state import Incumbents
from search.placement.placed_pricing import PricedRows
from search.space.enumeration import Rejections

MOST_AHEAD = 6  # chunks with rows between a chunk and the last one that it knows
MOST_QUEUED = 64  # chunks in the queue, also those without a legal row


def num_known(place: int) -> int:
    """The number of leading chunks whose times the chunk at a place must beat: all before it but the last few.

    At the beginning, where times fall quickly, a chunk waits for more of them. The number depends on the place alone, not on who
    has finished, so that results do not depend on it either.
    """
    known = max(0, place - MOST_AHEAD + 1)
    while known + min(MOST_AHEAD, 1 + known // 2) <= place:
        known += 1
    return known


@dataclass
class ChunkResult:
    """The result of one chunk so far; counts as in ``LatticeState``. ``leanest`` is set only below the known least peak."""

    incumbents: Incumbents
    legal: int = 0
    ruled_out: int = 0
    fits: int = 0
    enumerated: int = 0
    rejections: Rejections = field(default_factory=Rejections)
    leanest: tuple[float, ParallelStrategy] | None = None
    rows: PricedRows | None = None  # rows that fit, in the order of the enumeration

    @property
    def least_bytes(self) -> float:
        """The least peak memory so far."""
        return self.incumbents.least_bytes if self.leanest is None else self.leanest[0]


class QueuedChunk(NamedTuple):
    """The legal rows of a chunk and the times that they must beat. ``piece`` is set where its pricing has begun."""

    batch: StrategyBatch
    rejections: Rejections
    num_enumerated: int
    done_fraction: float
    incumbents: Incumbents
    piece: Piece[ChunkResult] | None = None
