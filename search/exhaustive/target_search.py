"""The best plan that a framework takes, and beside it the best that physics alone would allow.

The framework's own lattice is searched first, as for a target it always is. What the framework refuses of the lattice of
physics is searched after it for one plan, under the best time of the first search: a row whose bound is not below it is
never simulated, and rows that the framework takes are not priced again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cost_models.constants import Constants
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.legality import violations
from frameworks.target import ANY
from search.errors import SearchError
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.exhaustive.open_candidates import OpenCandidates
from search.explain.explanation import GIB, compared
from search.plans.plan import DeploymentPlan, plan_id, strategy_to_mapping
from search.ranking.leaderboard import Leaderboard, RankedStrategy
from search.results.result_builder import ResultBuilder
from search.results.search_result import BrokenRule, PhysicsBest, SearchResult, Timing
from search.session.progress import Progress
from search.space.search_space import SearchSpace
from search.trials.trial import Trial

THE_BEST = Sentence("the best that physics allows")


def on_physics(workload: Workload) -> Workload:
    """The same workload on the physics alone."""
    return replace(workload, software=replace(workload.software, target=ANY.name))


@dataclass(frozen=True)
class _Settings:
    """What both searches share."""

    objective: str
    top: int
    clock: Any
    others: Mapping[str, Any]


class TargetSearch:
    """A search for a target, then one of what the target refuses; ``Stepwise``, saved and continued as one.

    Parameters as ``LatticeSearch``; ``physics`` is the space of the same limits on the physics alone, ``checkpoint`` what
    ``checkpoint()`` returned.
    """

    trials: Sequence[Trial] = ()

    def __init__(
        self,
        workload: Workload,
        space: SearchSpace,
        physics: SearchSpace,
        constants: Constants,
        *,
        checkpoint: Mapping[str, Any] | None = None,
        objective: str = "step_time",
        top: int = 20,
        clock: Any = None,
        baseline: Any = None,
        **settings: Any,
    ) -> None:
        self._workload, self._physics, self._constants = workload, physics, constants
        self._settings = _Settings(objective, top, clock, settings)
        saved, beyond = _parts(checkpoint)
        state = None if saved is None else LatticeState.from_mapping(saved, objective, top)
        self._launchable = LatticeSearch(
            workload, space, constants, objective=objective, top=top, clock=clock, baseline=baseline, state=state, **settings
        )
        self._beyond = None if beyond is None else self._search_beyond(LatticeState.from_mapping(beyond, objective, 1))

    @property
    def launchable(self) -> LatticeSearch:
        """The search whose plans are ranked."""
        return self._launchable

    def _search_beyond(self, state: LatticeState) -> LatticeSearch:
        settings = self._settings
        return LatticeSearch(
            on_physics(self._workload),
            self._physics,
            self._constants,
            objective=settings.objective,
            top=1,
            clock=settings.clock,
            state=state,
            refused_by=self._workload.software.target,
            **settings.others,
        )

    def advance(self) -> bool:
        """One more step of the first search, or of the second once the first has ended."""
        if self._beyond is not None:
            return self._beyond.advance()
        if not self._launchable.advance():
            to_beat = OpenCandidates(to_beat_s=self._launchable.state.candidates.best_s)
            self._beyond = self._search_beyond(LatticeState(Leaderboard(self._settings.objective, 1), candidates=to_beat))
        return True

    @property
    def progress(self) -> Progress:
        """How far both have come; counts and the best time are of the plans that can be launched."""
        first = self._launchable.progress
        if self._beyond is None:
            return replace(first, done_fraction=first.done_fraction / 2.0)
        second = self._beyond.progress
        return replace(first, done_fraction=(1.0 + second.done_fraction) / 2.0, elapsed_s=first.elapsed_s + second.elapsed_s)

    def checkpoint(self) -> dict[str, Any]:
        """Both states as JSON."""
        beyond = None if self._beyond is None else self._beyond.checkpoint()
        return {"launchable": self._launchable.checkpoint(), "physics": beyond}

    def result(self, stopped_by: str | None = None) -> SearchResult:
        """The plans of the first search, and the best of the second with what makes the difference."""
        beyond = self._beyond
        found = self._launchable.result(None if beyond is not None else stopped_by)
        if beyond is None:
            return found
        best, timing = beyond.best()
        physics = self._physics_best(found, best, beyond, stopped_by)
        return replace(found, physics_best=physics, timing=_summed(found.timing, timing))

    def _physics_best(
        self, found: SearchResult, best: RankedStrategy | None, beyond: LatticeSearch, stopped_by: str | None
    ) -> PhysicsBest | None:
        plan = found.best
        faster = best is not None and (plan is None or self._value(best) < _value_of(plan, self._settings.objective))
        is_closed = beyond.is_closed
        effort: dict[str, Any] = {
            "num_refused": beyond.state.legal,
            "simulated": beyond.state.candidates.num_simulated,
            "proved_best": is_closed,
            "stopped_by": None if is_closed else stopped_by or "max_simulations",
        }
        if best is None or not faster:
            if plan is None:
                return None
            target = self._workload.software.target
            why = Sentence("Nothing that {} refuses is better than plan {}.", target, plan.rank)
            return PhysicsBest(plan.plan_id, plan.strategy, plan.estimate, 0.0, why, (), **effort)
        workload = on_physics(self._workload)
        answers = ResultBuilder(workload, self._physics, self._constants, beyond.simulator)
        (estimate,) = answers.estimates([best.strategy])
        broken = violations(workload, best.strategy, self._workload.software.target)
        return PhysicsBest(
            plan_id=plan_id(workload, best.strategy),
            strategy=strategy_to_mapping(workload, best.strategy),
            estimate=estimate,
            difference_fraction=None if plan is None else plan.estimate["step_time_s"] / estimate["step_time_s"] - 1.0,
            why=self._why(found, estimate),
            rules=tuple(BrokenRule(violation.rule, violation.sentence) for violation in broken),
            **effort,
        )

    def _value(self, best: RankedStrategy) -> float:
        return best.peak_memory_bytes if self._settings.objective == "memory_headroom" else best.step_time_s

    def _why(self, found: SearchResult, estimate: Mapping[str, Any]) -> str:
        plan = found.best
        if plan is None:
            return Sentence("{} takes no plan that fits; this is {}.", self._workload.software.target, THE_BEST)
        sentence = compared(Sentence("Plan {}", plan.rank), plan.estimate, estimate, THE_BEST)
        fraction = found.paired_error.fraction
        if plan.estimate["step_time_s"] < estimate["step_time_s"] * (1.0 + fraction):
            sentence += Sentence(" They cannot be told apart: the paired error is {:.1%}.", fraction)
        if self._settings.objective != "memory_headroom":
            return sentence
        more = (plan.estimate["peak_memory_bytes"] - estimate["peak_memory_bytes"]) / GIB
        return Sentence("Plan {} needs {:.1f} GiB more device memory than {}. {}", plan.rank, more, THE_BEST, sentence)


def _value_of(plan: DeploymentPlan, objective: str) -> float:
    value: float = plan.estimate["peak_memory_bytes" if objective == "memory_headroom" else "step_time_s"]
    return value


def _parts(checkpoint: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    if checkpoint is None:
        return None, None
    try:
        return checkpoint["launchable"], checkpoint["physics"]
    except (KeyError, TypeError):
        raise SearchError(Sentence("checkpoint: not one that a search of this version for a target wrote.")) from None


def _summed(first: Timing, second: Timing) -> Timing:
    """The phases of both searches together."""
    return Timing(**{name: (value or 0.0) + (getattr(second, name) or 0.0) for name, value in vars(first).items()})
