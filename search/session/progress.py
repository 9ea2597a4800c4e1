"""Progress of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

PHASES = ENUMERATE, SIMULATE, SAMPLE, REFINE, PRICE, EXPLAIN = ("enumerate", "simulate", "sample", "refine", "price", "explain")
UNFINISHED = 0.99  # the largest fraction that unfinished work reports
SEARCHED = 0.75  # fraction reported once everything is found and only the explanation of plans is left
HALF_EXPLAINED = 12  # heartbeats that halve the remaining fraction; their total number is unknown


@dataclass(frozen=True)
class Progress:
    """Progress of a search. ``done_fraction`` counts layouts, not strategies; it does not forecast time.

    ``lattice`` is the number of strategies of an exhaustive search, without the memory-saving forms that are tried besides.
    ``phase`` is one of ``PHASES``; ``PRICE`` belongs to post-training. Bounds rule out strategies while they are enumerated.
    """

    done_fraction: float
    enumerated: int
    legal: int
    fits_memory: int
    best_step_time_s: float | None
    elapsed_s: float
    sampled: int | None = None  # trials of a sampler, or of a refinement
    simulated: int | None = None
    lattice: int | None = None
    phase: str = ENUMERATE


Clock = Callable[[], float]  # seconds
ProgressCallback = Callable[[Progress], bool | None]
ProgressT = TypeVar("ProgressT", bound=Progress)


def while_searching(progress: ProgressT, share: float = SEARCHED) -> ProgressT:
    """The progress of a search whose result is still to be explained: ``share`` once everything is found."""
    return replace(progress, done_fraction=share * progress.done_fraction)


def while_explaining(progress: ProgressT, num_beats: int) -> ProgressT:
    """The progress after ``num_beats`` heartbeats of the explanation; never 1."""
    left = (UNFINISHED - min(progress.done_fraction, UNFINISHED)) * 0.5 ** (num_beats / HALF_EXPLAINED)
    return replace(progress, phase=EXPLAIN, done_fraction=UNFINISHED - left)
