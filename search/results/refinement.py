"""The records of a refinement. They are apart from the plans of the lattice, and their proof does not cover them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RefinedPlan:
    """A plan that the proof does not cover; ``change`` and ``gain_fraction`` compare it with ``of_plan_id``, the proved plan."""

    plan_id: str
    of_plan_id: str
    change: str
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]
    gain_fraction: float
    launchable_on: tuple[str, ...]
    launch: Mapping[str, Any]

    def to_mapping(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {**vars(self), "launchable_on": list(self.launchable_on)}


@dataclass(frozen=True)
class RefinementCounts:
    """Trials, and their distinct strategies: legal, fitting, ruled out by a bound, simulated."""

    trials: int
    distinct: int
    legal: int
    fits_memory: int
    pruned_by_bound: int
    simulated: int


@dataclass(frozen=True)
class Refinement:
    """Trials around the plans of the lattice. ``gain_fraction`` is the gain of the first of ``plans`` over the proved plan.

    ``plans`` are faster than that plan, the fastest first. ``front`` is set on request: no plan of it is faster and needs no more
    memory than another.
    """

    sampler: str
    seed: int
    max_trials: int
    stopped_by: str | None  # max_trials | stagnation | time_limit | interrupt
    counts: RefinementCounts
    gain_fraction: float
    plans: tuple[RefinedPlan, ...]
    front: tuple[RefinedPlan, ...]

    def to_mapping(self) -> dict[str, Any]:
        """The refinement as JSON."""
        listed = {name: [plan.to_mapping() for plan in getattr(self, name)] for name in ("plans", "front")}
        return {**vars(self), "counts": asdict(self.counts), **listed}
