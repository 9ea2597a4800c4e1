"""What plans are ranked and bounded by, beside the step and memory that the lattice itself orders them by.

An objective such as energy has a number only for a whole plan, so it ranks the fastest structures of the lattice. What it is at
least, of a plan that takes no less than the proved shortest step, says how much a plan that was not among them could gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from documents.sentences import Sentence, joined
from search.plans.plan import DeploymentPlan
from search.ranking.leaderboard import OF_LATTICE
from search.ranking.pareto import pareto
from search.ranking.proof import Proof

CONSIDERED = 50  # structures, the fastest of the lattice
EXACT = 1e-12  # relative; a bound this near is reached

Numbers = Mapping[str, Any]  # an estimate as JSON


@dataclass(frozen=True)
class Value:
    """Of one plan: smaller is better; ``shown`` as answers have it, ``text`` with what makes it."""

    value: float
    shown: float
    text: str


@dataclass(frozen=True)
class Measure:
    """An objective. ``values`` are those of plans; ``least`` is what no plan beats whose step takes at least that long."""

    name: str
    values: Callable[[Sequence[ParallelStrategy], Sequence[Numbers]], list[Value]]
    least: Callable[[float], float]


@dataclass(frozen=True)
class Limit:
    """What a plan must not exceed. ``sentence`` says of the smallest number what it is too much of."""

    numbers: Callable[[Sequence[ParallelStrategy], Sequence[Numbers]], list[float]]
    most: float
    sentence: Callable[[float], str]


@dataclass(frozen=True)
class Judgement:
    """The objectives, of which the first ranks, the limits, and how many plans are listed."""

    measures: tuple[Measure, ...]
    limits: tuple[Limit, ...]
    top: int

    @property
    def name(self) -> str:
        """The objective that ranks."""
        return self.measures[0].name

    @property
    def is_of_lattice(self) -> bool:
        """Whether the lattice itself is ordered by the first objective."""
        return self.name in OF_LATTICE

    @property
    def of_lattice(self) -> str:
        """What orders the lattice."""
        return self.name if self.is_of_lattice else "step_time"

    @property
    def considered(self) -> int:
        """Structures that are judged."""
        many = len(self.measures) > 1 or not self.is_of_lattice or bool(self.limits)
        return max(self.top, CONSIDERED) if many else self.top

    def judged(self, strategies: Sequence[ParallelStrategy], estimates: Sequence[Numbers]) -> list[dict[str, Value] | None]:
        """The values of each plan by objective; nothing for one beyond a limit."""
        if not strategies:
            return []
        columns = {measure.name: measure.values(strategies, estimates) for measure in self.measures}
        within = [True] * len(strategies)
        for limit in self.limits:
            numbers = limit.numbers(strategies, estimates)
            within = [kept and number <= limit.most for kept, number in zip(within, numbers, strict=True)]
        return [{name: values[row] for name, values in columns.items()} if kept else None for row, kept in enumerate(within)]

    def why_none(self, strategies: Sequence[ParallelStrategy], estimates: Sequence[Numbers]) -> str:
        """Of plans none of which is within the limits: which of these the nearest breaks."""
        broken = [
            limit.sentence(least) for limit in self.limits if (least := min(limit.numbers(strategies, estimates))) > limit.most
        ]
        return joined(" ", broken) or Sentence("No plan is within all limits at once.")

    def front(self, plans: Sequence[DeploymentPlan]) -> list[DeploymentPlan]:
        """Plans that no other of them equals or beats in every objective, where there are several."""
        if len(self.measures) < 2:
            return []
        rows = pareto([[plan.ordered_by[measure.name] for measure in self.measures] for plan in plans])
        return [plans[row] for row in rows]

    def proof(self, found: Proof, best: DeploymentPlan | None, least_step_s: float, *, first_is_kept: bool) -> Proof:
        """What is proved of the best plan, given what is of the lattice's order and that no step is shorter than that.

        Where limits drop the lattice's first plan, something between it and the best may be within them.
        """
        if best is None:
            return replace(found, objective=self.name)
        if self.is_of_lattice:
            if first_is_kept:
                return replace(found, places=min(found.places, 1)) if self.limits else found
            return replace(found, proved_best=False, places=0, optimality_gap_fraction=None)
        gap = None if found.optimality_gap_fraction is None else self._gap_fraction(best.ordered_by[self.name], least_step_s)
        proved = found.proved_best and gap == 0.0
        return replace(found, objective=self.name, proved_best=proved, places=int(proved), optimality_gap_fraction=gap)

    def _gap_fraction(self, value: float, least_step_s: float) -> float:
        """How much better another plan could be at most; 0 where none can."""
        gap = 0.0 if value <= 0.0 else (value - self.measures[0].least(least_step_s)) / value
        return gap if gap > EXACT else 0.0
