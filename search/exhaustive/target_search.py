"""The search for a target, and the search for the best plan that the target refuses.

The lattice of the target is searched first. After it, the rows of the lattice of physics that the target refuses are searched for
one plan, under the best time of the first search: a row whose bound is not below it is never simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from documents.sentences import Sentence
from frameworks.legality import violations
from search.errors import SearchError
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.exhaustive.open_candidates import OpenCandidates
from search.explain.explanation import GIB, compared
from search.objectives.objective import Criterion
from search.plans.plan import plan_id, strategy_to_mapping
from search.ranking.leaderboard import Leaderboard, RankedStrategy
from search.results.result_builder import ResultBuilder
from search.results.search_result import BrokenRule, PhysicsBest, SearchResult, Timing
from search.session.progress import Progress
from search.session.request import SearchRequest
from search.trials.trial import Trial

THE_BEST = Sentence("the best that physics allows")


class TargetSearch:
    """A search for a target, then a search of the rows that the target refuses; saved and continued as one.

    ``checkpoint`` is the JSON that ``checkpoint()`` returned, ``executor`` that of ``LatticeSearch``.
    """

    trials: Sequence[Trial] = ()

    def __init__(
        self, request: SearchRequest, *, checkpoint: Mapping[str, Any] | None = None, executor: Executor = SERIAL
    ) -> None:
        self._request, self._executor = request, executor
        saved, beyond = _parts(checkpoint)
        state = None if saved is None else LatticeState.from_mapping(saved, request.criterion, request.top)
        self._launchable = LatticeSearch(request, state=state, executor=executor)
        self._beyond = None if beyond is None else self._search_beyond(LatticeState.from_mapping(beyond, request.criterion, 1))

    @property
    def launchable(self) -> LatticeSearch:
        """The search whose plans are ranked."""
        return self._launchable

    def _search_beyond(self, state: LatticeState) -> LatticeSearch:
        target = self._request.workload.software.target
        return LatticeSearch(self._request.of_physics(), state=state, refused_by=target, executor=self._executor)

    def advance(self) -> bool:
        """One more step of the first search, or of the second once the first has ended."""
        if self._beyond is not None:
            return self._beyond.advance()
        if not self._launchable.advance():
            to_beat = OpenCandidates(to_beat_s=self._launchable.state.candidates.best_s)
            self._beyond = self._search_beyond(LatticeState(Leaderboard(self._request.criterion, 1), candidates=to_beat))
        return True

    @property
    def progress(self) -> Progress:
        """Progress of both searches; counts and the best time refer to plans that can be launched."""
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
        """The plans of the first search, and the best plan of the second with the reasons for the difference."""
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
        plan, criterion = found.best, self._request.criterion
        faster = best is not None and (plan is None or best.by(criterion) < plan.estimate[criterion.value])
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
            target = self._request.workload.software.target
            why = Sentence("Nothing that {} refuses is better than plan {}.", target, plan.rank)
            return PhysicsBest(plan.plan_id, plan.strategy, plan.estimate, 0.0, why, (), **effort)
        workload = beyond.workload
        builder = ResultBuilder(workload, beyond.request.space, beyond.constants, beyond.simulator)
        (estimate,) = builder.estimates([best.strategy])
        broken = violations(workload, best.strategy, self._request.workload.software.target)
        return PhysicsBest(
            plan_id=plan_id(workload, best.strategy),
            strategy=strategy_to_mapping(workload, best.strategy),
            estimate=estimate,
            difference_fraction=None if plan is None else plan.estimate["step_time_s"] / estimate["step_time_s"] - 1.0,
            why=self._why(found, estimate),
            rules=tuple(BrokenRule(violation.rule, violation.sentence) for violation in broken),
            **effort,
        )

    def _why(self, found: SearchResult, estimate: Mapping[str, Any]) -> str:
        plan = found.best
        if plan is None:
            return Sentence("{} takes no plan that fits; this is {}.", self._request.workload.software.target, THE_BEST)
        sentence = compared(Sentence("Plan {}", plan.rank), plan.estimate, estimate, THE_BEST)
        fraction = found.paired_error.fraction
        if plan.estimate["step_time_s"] < estimate["step_time_s"] * (1.0 + fraction):
            sentence += Sentence(" They cannot be told apart: the paired error is {:.1%}.", fraction)
        if self._request.criterion is not Criterion.PEAK_MEMORY:
            return sentence
        more = (plan.estimate["peak_memory_bytes"] - estimate["peak_memory_bytes"]) / GIB
        return Sentence("Plan {} needs {:.1f} GiB more device memory than {}. {}", plan.rank, more, THE_BEST, sentence)


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
