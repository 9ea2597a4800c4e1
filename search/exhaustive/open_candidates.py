"""Candidates for the list of best plans: simulated in the order of their bounds until the list is proved."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import StrategyBatch
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from search.plans.estimator import Estimator
from search.ranking.leaderboard import Scored, joined, scored_from_mapping, scored_to_mapping
from search.ranking.structures import Structure, structures

Floats = NDArray[np.float64]

POOL_SIZE = 20_000  # rows kept for simulation; those with the largest bounds go first
BATCH_SIZE = 1024
OF_ONE_STRUCTURE = 32  # rows of a structure in a batch: more wait for fewer calls, fewer are ruled out by the best of them
LATER = 4  # so much larger are batches once one has been simulated: what is open then is rarely ruled out, and a call costs more


@dataclass
class OpenCandidates:
    """A pool of open rows with their lower bounds, and the rows that have been simulated. Times are step times in seconds.

    The ``places`` best structures are to be proved, each by its fastest row. A row leaves the pool when it is simulated, or when
    its bound is not below ``limits_s``. That limit is the time of the last listed structure, or the best time of the row's own
    structure where that is shorter. ``to_beat_s`` is a time that is known from elsewhere: only shorter ones are listed.
    ``dropped_bound_s`` is the smallest bound of the rows that the full pool dropped.
    """

    places: int = 1
    to_beat_s: float = float("inf")
    pool: Scored | None = None  # open rows, sorted by the closed form's time
    bounds_s: Floats = field(default_factory=lambda: np.empty(0))
    simulated: Scored | None = None
    dropped_bound_s: float = float("inf")
    structure_s: dict[Structure, float] = field(default_factory=dict)  # the best time of each that has been simulated
    bar_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.bar_s = self.to_beat_s
        if self.simulated is not None:
            self._note(self.simulated)

    @property
    def num_simulated(self) -> int:
        """Rows simulated so far."""
        return 0 if self.simulated is None else len(self.simulated)

    @property
    def best_s(self) -> float:
        """The best time so far, or the time to beat."""
        return min(self.to_beat_s, min(self.structure_s.values(), default=float("inf")))

    @property
    def open_bound_s(self) -> float:
        """The smallest bound of an open row that could be listed; infinite once the whole list is proved."""
        bound = min(self.dropped_bound_s, float(self.bounds_s.min()) if len(self.bounds_s) else float("inf"))
        return bound if bound < self.bar_s else float("inf")

    @property
    def num_proved(self) -> int:
        """The number of best structures that are proved: no open row could come before them."""
        return sum(time_s <= self.open_bound_s for time_s in heapq.nsmallest(self.places, self.structure_s.values()))

    def limits_s(self, batch: StrategyBatch) -> Floats:
        """The time that the bound of each row must be below, ``[n]``."""
        times = [self.structure_s.get(structure, self.bar_s) for structure in structures(batch)]
        return np.minimum(np.array(times, dtype=np.float64), self.bar_s)

    def consider(self, scored: Scored, bounds_s: Floats) -> None:
        """Add rows whose bound is below their limit."""
        rows = np.flatnonzero(bounds_s < self.bar_s)
        if len(rows):
            rows = rows[bounds_s[rows] < self.limits_s(scored.batch.take(rows))]
        if not len(rows):
            return
        added = scored.take(rows)
        self.pool = added if self.pool is None else joined(self.pool, added)
        self.bounds_s = np.concatenate([self.bounds_s, bounds_s[rows]])
        if len(self.bounds_s) > POOL_SIZE:
            order = np.argsort(self.bounds_s, kind="stable")
            self.dropped_bound_s = min(self.dropped_bound_s, float(self.bounds_s[order[POOL_SIZE]]))
            self._keep(np.sort(order[:POOL_SIZE]))

    def most_promising(self, most: int) -> Scored | None:
        """The rows of the best structures by the closed form, one for each structure, where it would beat its limit."""
        if self.pool is None or not len(self.pool) or most < 1:
            return None
        rows = np.flatnonzero(self.pool.step_time_s < self.bar_s)
        rows = rows[self.pool.step_time_s[rows] < self.limits_s(self.pool.batch.take(rows))]
        if not len(rows):
            return None
        rows = rows[np.argsort(self.pool.step_time_s[rows], kind="stable")]
        rows = rows[first_of_each(self.pool.batch.take(rows), 1)]
        return self.pool.take(rows[: min(self.places, most)])

    def next_batch(self, most: int) -> Scored | None:
        """The rows with the smallest bounds, some of each structure, at most ``most``; ``None`` once none could be listed."""
        if self.pool is None or not len(self.pool) or most < 1:
            return None
        times = LATER if self.num_simulated >= BATCH_SIZE else 1
        order = np.argsort(self.bounds_s, kind="stable")
        chosen = order[first_of_each(self.pool.batch.take(order), times * OF_ONE_STRUCTURE)]
        return self.pool.take(chosen[: min(times * BATCH_SIZE, most)])

    def settle(self, scored: Scored) -> None:
        """Note simulated rows. They leave the pool, and so do rows that can no longer be listed."""
        self.simulated = scored if self.simulated is None else joined(self.simulated, scored)
        self._note(scored)
        if self.pool is not None:
            open_rows = ~np.isin(self.pool.ordinal, scored.ordinal) & (self.bounds_s < self.limits_s(self.pool.batch))
            self._keep(np.flatnonzero(open_rows))

    def unseen(self, scored: Scored) -> Scored:
        """The rows that have not been simulated."""
        return scored if self.simulated is None else scored.take(~np.isin(scored.ordinal, self.simulated.ordinal))

    def listed(self, scored: Scored) -> NDArray[np.bool_]:
        """Whether each row is of one of the best structures."""
        best = set(heapq.nsmallest(self.places, self.structure_s, key=self.structure_s.__getitem__))
        return np.array([structure in best for structure in structures(scored.batch)], dtype=np.bool_)

    def _note(self, scored: Scored) -> None:
        for structure, time_s in zip(structures(scored.batch), scored.step_time_s.tolist(), strict=True):
            self.structure_s[structure] = min(time_s, self.structure_s.get(structure, time_s))
        if len(self.structure_s) >= self.places:
            last_s = heapq.nsmallest(self.places, self.structure_s.values())[-1]
            self.bar_s = min(self.to_beat_s, last_s)

    def _keep(self, rows: NDArray[np.int64]) -> None:
        assert self.pool is not None
        self.pool, self.bounds_s = self.pool.take(rows), self.bounds_s[rows]

    def to_mapping(self) -> dict[str, Any]:
        """The state as JSON; an infinite number is null."""
        return {
            "pool": None if self.pool is None else scored_to_mapping(self.pool),
            "bounds_s": self.bounds_s.tolist(),
            "simulated": None if self.simulated is None else scored_to_mapping(self.simulated),
            "to_beat_s": self.to_beat_s if np.isfinite(self.to_beat_s) else None,
            "dropped_bound_s": self.dropped_bound_s if np.isfinite(self.dropped_bound_s) else None,
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], places: int) -> OpenCandidates:
        """The state that ``to_mapping`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        pool, simulated = mapping["pool"], mapping["simulated"]
        to_beat_s, dropped_s = mapping["to_beat_s"], mapping["dropped_bound_s"]
        return cls(
            places=places,
            to_beat_s=float("inf") if to_beat_s is None else float(to_beat_s),
            pool=None if pool is None else scored_from_mapping(pool),
            bounds_s=np.array(mapping["bounds_s"], dtype=np.float64),
            simulated=None if simulated is None else scored_from_mapping(simulated),
            dropped_bound_s=float("inf") if dropped_s is None else float(dropped_s),
        )


def first_of_each(batch: StrategyBatch, number: int) -> NDArray[np.int64]:
    """The first ``number`` rows of each structure, in their order."""
    seen: dict[Structure, int] = {}
    rows = []
    for row, structure in enumerate(structures(batch)):
        seen[structure] = seen.get(structure, 0) + 1
        if seen[structure] <= number:
            rows.append(row)
    return np.array(rows, dtype=np.int64)


def simulated_rows(scored: Scored, simulate: Estimator, prices: LayerPrices) -> Scored:
    """Rows with simulated step times; their memory stays."""
    found: Estimate = simulate(prices.workload, scored.batch, prices.constants, memory=False, prices=prices)
    return Scored(scored.batch, found.step_time_s, scored.peak_memory_bytes, scored.ordinal)
