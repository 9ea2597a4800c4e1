"""Chunks of the lattice whose prices do not wait for each other, so that several can be at work at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from search.executors.executor import Piece
from search.exhaustive.lattice_state import Under
from search.placement.placed_pricing import PricedRows
from search.space.enumeration import Rejections

MOST_AHEAD = 6  # chunks with rows between one and the last that it knows of
MOST_QUEUED = 64  # chunks that are held, those without a legal row among them


def num_known(place: int) -> int:
    """Of how many chunks, the first ones, the one at that place knows the times to beat: all but the last few.

    At the beginning, where times fall quickly, more are waited for. It does not depend on who is done, so that answers do not.
    """
    known = max(0, place - MOST_AHEAD + 1)
    while known + min(MOST_AHEAD, 1 + known // 2) <= place:
        known += 1
    return known


@dataclass
class ChunkResult:
    """What pricing one chunk has found so far; counts as in ``LatticeState``, ``leanest`` only below what was known."""

    under: Under
    legal: int = 0
    ruled_out: int = 0
    enumerated: int = 0
    rejections: Rejections = field(default_factory=Rejections)
    leanest: tuple[float, ParallelStrategy] | None = None
    rows: PricedRows | None = None  # that fit, in the order of the enumeration

    @property
    def least_bytes(self) -> float:
        """The least peak memory so far."""
        return self.under.least_bytes if self.leanest is None else self.leanest[0]


class QueuedChunk(NamedTuple):
    """A chunk's legal rows and what it knows; ``piece`` where others price it, or it was priced before its turn."""

    batch: StrategyBatch
    rejections: Rejections
    num_enumerated: int
    done_fraction: float
    under: Under
    piece: Piece[ChunkResult] | None = None
