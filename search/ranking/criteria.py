"""The criteria that rank plans and limit them.

The lattice itself is ordered by step time or by memory. An objective such as energy has a value for a whole plan only, so it
ranks the fastest structures of the lattice. Its lower bound, at the shortest step that is proved, says how much a plan that
was not among them could gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from documents.sentences import Sentence, joined
from search.objectives.objective import Estimates, Objective, ObjectiveContext, Strategies, Value
from search.objectives.step_time import STEP_TIME
from search.plans.plan import DeploymentPlan
from search.ranking.pareto import pareto
from search.ranking.proof import Proof

CONSIDERED = 50  # structures, the fastest of the lattice
EXACT = 1e-12  # relative; a value this near its bound has reached it


@dataclass(frozen=True)
class PlanLimit:
    """A number that a plan must not exceed. ``sentence`` explains by how much the smallest number of all plans exceeds it."""

    numbers: Callable[[Strategies, Estimates], list[float]]
    most: float
    sentence: Callable[[float], str]


@dataclass(frozen=True)
class RankingCriteria:
    """The objectives, of which the first ranks, the limits, and the number of plans that are listed."""

    objectives: tuple[Objective, ...]
    context: ObjectiveContext
    limits: tuple[PlanLimit, ...]
    top: int

    @property
    def first(self) -> Objective:
        """The objective that ranks."""
        return self.objectives[0]

    @property
    def is_of_lattice(self) -> bool:
        """Whether the lattice itself is ordered by the first objective."""
        return self.first.orders_lattice_by is not None

    @property
    def of_lattice(self) -> Objective:
        """The objective that orders the lattice."""
        return self.first if self.is_of_lattice else STEP_TIME

    @property
    def considered(self) -> int:
        """The number of structures whose values are compared."""
        many = len(self.objectives) > 1 or not self.is_of_lattice or bool(self.limits)
        return max(self.top, CONSIDERED) if many else self.top

    def values(self, strategies: Strategies, estimates: Estimates) -> list[dict[str, Value] | None]:
        """The values of each plan by objective; ``None`` for a plan beyond a limit."""
        if not strategies:
            return []
        columns = {objective.name: objective.values(self.context, strategies, estimates) for objective in self.objectives}
        within = [True] * len(strategies)
        for limit in self.limits:
            numbers = limit.numbers(strategies, estimates)
            within = [kept and number <= limit.most for kept, number in zip(within, numbers, strict=True)]
        return [{name: values[row] for name, values in columns.items()} if kept else None for row, kept in enumerate(within)]

    def why_none(self, strategies: Strategies, estimates: Estimates) -> str:
        """The limits that the nearest plan breaks, where no plan is within all of them."""
        broken = [
            limit.sentence(least) for limit in self.limits if (least := min(limit.numbers(strategies, estimates))) > limit.most
        ]
        return joined(" ", broken) or Sentence("No plan is within all limits at once.")

    def front(self, plans: list[DeploymentPlan]) -> list[DeploymentPlan]:
        """Plans that no other plan equals or beats in every objective, where there are several objectives."""
        if len(self.objectives) < 2:
            return []
        rows = pareto([[plan.ordered_by[objective.name] for objective in self.objectives] for plan in plans])
        return [plans[row] for row in rows]

    def proof(self, found: Proof, best: DeploymentPlan | None, least_step_s: float, *, first_is_kept: bool) -> Proof:
        """Convert the lattice's optimality proof into one for the chosen objective, using the lower bound on step time.

        If limits drop the first plan of the lattice, they may admit a plan between it and the best.
        """
        if best is None:
            return replace(found, objective=self.first.name)
        if self.is_of_lattice:
            if first_is_kept:
                return replace(found, places=min(found.places, 1)) if self.limits else found
            return replace(found, proved_best=False, places=0, optimality_gap_fraction=None)
        value = best.ordered_by[self.first.name]
        gap = None if found.optimality_gap_fraction is None else self._gap_fraction(value, least_step_s)
        proved = found.proved_best and gap == 0.0
        return replace(found, objective=self.first.name, proved_best=proved, places=int(proved), optimality_gap_fraction=gap)

    def _gap_fraction(self, value: float, least_step_s: float) -> float:
        """Maximum improvement of any other plan, relative to the value; 0 if none is possible."""
        difference = value - self.first.lower_bound(self.context, least_step_s)
        if difference <= EXACT * abs(value):
            return 0.0
        return difference / abs(value) if value else 1.0
