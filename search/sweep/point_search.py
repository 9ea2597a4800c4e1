"""The search of one point of a sweep, which begins with the times of plans from other points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch, concatenate
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate_priced
from cost_models.step.placing import least_step_times_s, work
from cost_models.step.priced_groups import priced_by
from cost_models.step.priced_keys import LayerPrices
from frameworks.legality import violations
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import Incumbents, LatticeState
from search.exhaustive.open_candidates import simulated_rows
from search.objectives.objective import Criterion
from search.ranking.leaderboard import Leaderboard, Scored, batch_from_mapping, batch_to_mapping
from search.session.progress import Clock
from search.session.request import SearchRequest
from search.space.limits import DEGREES
from search.space.search_space import SearchSpace

TOGETHER = 10_000  # rows that are priced at once: few are left of each chunk, and each call has a fixed cost
BEFORE_ALL = -1  # the place of a plan that was there before the enumeration


class PointSearch(LatticeSearch):
    """A search for the fastest plan alone.

    Rows that no placement makes faster than the best plan so far are dropped before they are priced, and not counted. ``known``
    are plans of other points: those that run here too are times to beat from the beginning. The proof is that of
    ``LatticeSearch``; of plans with equal times it may name another. ``checkpoint`` continues an earlier search with the same
    arguments.
    """

    def __init__(
        self,
        workload: Workload,
        space: SearchSpace,
        constants: Constants,
        *,
        known: Sequence[ParallelStrategy] = (),
        clock: Clock | None = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        if checkpoint is None:
            state = starting_state(workload, space, constants, known)
        else:
            state = LatticeState.from_mapping(checkpoint, Criterion.STEP_TIME, 1)
        super().__init__(SearchRequest(workload, space, constants, top=1, clock=clock), state=state)
        waiting = None if checkpoint is None else checkpoint["waiting"]
        self._waiting: StrategyBatch | None = None if waiting is None else batch_from_mapping(waiting)

    def checkpoint(self) -> dict[str, Any]:
        """The state as JSON, with the rows that wait to be priced."""
        return {**super().checkpoint(), "waiting": None if self._waiting is None else batch_to_mapping(self._waiting)}

    def advance(self) -> bool:
        """One step of the lattice search. Waiting rows are priced once nothing else is left."""
        going = super().advance()
        if self.state.is_enumerated and self._waiting is not None:
            self._price_waiting()
            return True
        return going

    @property
    def is_closed(self) -> bool:
        """Whether no open candidate could beat the best time."""
        return self._waiting is None and super().is_closed

    def _consider(self, batch: StrategyBatch) -> None:
        best_s = self.state.candidates.best_s
        if not len(batch) or not np.isfinite(best_s):
            super()._consider(batch)
            return
        priced = priced_by(self._pricing.prices, batch)
        batch = batch.take(least_step_times_s(priced, work(priced)).step_s < best_s)
        if len(batch):
            self._waiting = batch if self._waiting is None else concatenate([self._waiting, batch])
        if self._waiting is not None and len(self._waiting) >= TOGETHER:
            self._price_waiting()

    def _incumbents(self, place: int) -> Incumbents:
        """The times to beat. Rows wait until many are priced at once, so that all earlier times are known."""
        least_bytes = float("inf") if self.state.leanest is None else self.state.leanest[0]
        return Incumbents(self.state.bar_s, least_bytes)

    def _price_waiting(self) -> None:
        assert self._waiting is not None
        super()._consider(self._waiting)
        self._waiting = None

    @property
    def before_climbing(self) -> ParallelStrategy | None:
        """The best plan of the lattice before single layers are moved, for other points to start from."""
        simulated = self.state.candidates.simulated
        return None if simulated is None else simulated.batch.row(int(simulated.step_time_s.argmin()))

    def why_no_plan(self) -> str:
        """Why this point has no plan."""
        leanest = self.state.leanest
        return self._builder.nearest(self.state.rejections, self._builder.infeasible(leanest))


def starting_state(
    workload: Workload, space: SearchSpace, constants: Constants, known: Sequence[ParallelStrategy]
) -> LatticeState:
    """The state before a search: of the known plans, the best that the space holds and that fits."""
    state = LatticeState(Leaderboard(Criterion.STEP_TIME, 1))
    here = [plan for plan in dict.fromkeys(canonical(workload, each) for each in known) if _is_of(workload, space, plan)]
    if not here:
        return state
    prices, batch = LayerPrices(workload, constants), StrategyBatch.of(here)
    found = estimate_priced(priced_by(prices, batch))
    fitting = np.flatnonzero(found.fits)
    if not len(fitting):
        return state
    best = fitting[[int(found.step_time_s[fitting].argmin())]]
    row = Scored(batch.take(best), found.step_time_s[best], found.peak_memory_bytes[best], np.array([BEFORE_ALL]))
    state = LatticeState(Leaderboard(Criterion.STEP_TIME, 1, kept=row))
    state.candidates.settle(simulated_rows(row, simulate, prices))
    return state


def _is_of(workload: Workload, space: SearchSpace, plan: ParallelStrategy) -> bool:
    return all(getattr(plan, name) in getattr(space, name) for name in DEGREES) and not violations(workload, plan)
