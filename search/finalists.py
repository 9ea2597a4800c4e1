"""Strategies that may still be the best: simulated in the order of their bounds until no bound is below the best time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from search.explanation import Estimator
from search.ranking import Scored, joined, scored_from_mapping, scored_to_mapping

Floats = NDArray[np.float64]

MAX_SIMULATIONS = 200_000
POOL_SIZE = 20_000  # rows kept for simulation; those with the largest bounds go first
BATCH_SIZE = 256


@dataclass
class Finalists:
    """A pool of rows with their bounds, and what has been simulated. Times are step times in seconds.

    A row leaves the pool when it is simulated, or when its bound is not below ``best_s``. ``dropped_bound_s`` is the smallest
    bound of the rows that the pool had no room for.
    """

    pool: Scored | None = None  # by the closed form's time
    bounds_s: Floats = field(default_factory=lambda: np.empty(0))
    simulated: Scored | None = None
    best_s: float = float("inf")
    dropped_bound_s: float = float("inf")

    @property
    def num_simulated(self) -> int:
        """Rows simulated so far."""
        return 0 if self.simulated is None else len(self.simulated)

    @property
    def open_bound_s(self) -> float:
        """The smallest bound of what has not been simulated and could be better; infinite once the proof is closed."""
        bound = min(self.dropped_bound_s, float(self.bounds_s.min()) if len(self.bounds_s) else float("inf"))
        return bound if bound < self.best_s else float("inf")

    def consider(self, scored: Scored, bounds_s: Floats) -> None:
        """Add rows whose bound is below the best time."""
        rows = np.flatnonzero(bounds_s < self.best_s)
        if not len(rows):
            return
        added = scored.take(rows)
        self.pool = added if self.pool is None else joined(self.pool, added)
        self.bounds_s = np.concatenate([self.bounds_s, bounds_s[rows]])
        if len(self.bounds_s) > POOL_SIZE:
            order = np.argsort(self.bounds_s, kind="stable")
            self.dropped_bound_s = min(self.dropped_bound_s, float(self.bounds_s[order[POOL_SIZE]]))
            self._keep(np.sort(order[:POOL_SIZE]))

    def most_promising(self) -> Scored | None:
        """The row of the pool that the closed form likes best, if it would beat the best time."""
        if self.pool is None or not len(self.pool):
            return None
        row = int(np.argmin(self.pool.step_time_s))
        return self.pool.take(np.array([row])) if self.pool.step_time_s[row] < self.best_s else None

    def next_batch(self, most: int) -> Scored | None:
        """The rows with the smallest bounds, at most ``most``; ``None`` once none could be better."""
        if self.pool is None or not len(self.pool) or most < 1:
            return None
        order = np.argsort(self.bounds_s, kind="stable")[: min(BATCH_SIZE, most)]
        return self.pool.take(order)

    def settle(self, scored: Scored) -> None:
        """Take note of simulated rows: they leave the pool, and so does what can no longer be better."""
        self.simulated = scored if self.simulated is None else joined(self.simulated, scored)
        self.best_s = min(self.best_s, float(scored.step_time_s.min()))
        if self.pool is not None:
            open_rows = ~np.isin(self.pool.ordinal, scored.ordinal) & (self.bounds_s < self.best_s)
            self._keep(np.flatnonzero(open_rows))

    def unseen(self, scored: Scored) -> Scored:
        """The rows that have not been simulated."""
        return scored if self.simulated is None else scored.take(~np.isin(scored.ordinal, self.simulated.ordinal))

    def _keep(self, rows: NDArray[np.int64]) -> None:
        assert self.pool is not None
        self.pool, self.bounds_s = self.pool.take(rows), self.bounds_s[rows]

    def to_mapping(self) -> dict[str, Any]:
        """The state as JSON; an infinite number is null."""
        return {
            "pool": None if self.pool is None else scored_to_mapping(self.pool),
            "bounds_s": self.bounds_s.tolist(),
            "simulated": None if self.simulated is None else scored_to_mapping(self.simulated),
            "best_s": self.best_s if np.isfinite(self.best_s) else None,
            "dropped_bound_s": self.dropped_bound_s if np.isfinite(self.dropped_bound_s) else None,
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Finalists:
        """The state that ``to_mapping`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        pool, simulated = mapping["pool"], mapping["simulated"]
        best_s, dropped_s = mapping["best_s"], mapping["dropped_bound_s"]
        return cls(
            pool=None if pool is None else scored_from_mapping(pool),
            bounds_s=np.array(mapping["bounds_s"], dtype=np.float64),
            simulated=None if simulated is None else scored_from_mapping(simulated),
            best_s=float("inf") if best_s is None else float(best_s),
            dropped_bound_s=float("inf") if dropped_s is None else float(dropped_s),
        )


def simulated_rows(scored: Scored, simulate: Estimator, prices: LayerPrices) -> Scored:
    """The same rows with simulated step times; their memory is known."""
    found: Estimate = simulate(prices.workload, scored.batch, prices.constants, memory=False, prices=prices)
    return Scored(scored.batch, found.step_time_s, scored.peak_memory_bytes, scored.ordinal)
