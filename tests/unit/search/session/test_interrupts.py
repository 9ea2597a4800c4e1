"""An interrupt at any moment leaves a ranked answer that is true as far as it goes, and marked as not proved unless it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate
from frameworks.legality import legal_mask
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.target_search import TargetSearch
from search.ranking.leaderboard import RankedStrategy
from search.refinement.refined_search import RefinedSearch
from search.results.search_result import SearchResult
from search.session.progress import PHASES, SEARCHED, Progress
from search.session.request import on_physics
from search.session.runner import SteppedSearch, explained_result, run_to_end
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import MOE, request, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 2), pp=(1, 2), vpp=(1, 2), cp=(1,), etp=(1,), micro_batch_size=(1, 2))
JOB = workload(MOE, num_devices=16, target="any")
ON_TARGET = workload(MOE, num_devices=16, target="mindspeed-llm")


def lattice() -> SteppedSearch:
    return LatticeSearch(request(JOB, search_space(JOB, LIMITS), CONSTANTS, top=3))


def launchable() -> SteppedSearch:
    space, physics = search_space(ON_TARGET, LIMITS), search_space(on_physics(ON_TARGET), LIMITS)
    return TargetSearch(request(ON_TARGET, space, CONSTANTS, physics=physics, top=3))


def refined() -> SteppedSearch:
    whole = LatticeSearch(request(JOB, search_space(JOB, LIMITS), CONSTANTS, limits=LIMITS, top=3, refine=48))
    return RefinedSearch(whole, whole)


@contextmanager
def interrupted_after(calls: float) -> Iterator[list[int]]:
    """Raises ``KeyboardInterrupt`` at the beginning of that call of a function; counts the calls."""
    seen = [0]

    def at_call(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen[0] += 1
            if seen[0] == calls:
                raise KeyboardInterrupt

    sys.setprofile(at_call)
    try:
        yield seen
    finally:
        sys.setprofile(None)


def answered(begin: Callable[[], SteppedSearch], calls: float) -> tuple[SearchResult, int]:
    search = begin()
    with interrupted_after(calls) as seen:
        result = explained_result(search, run_to_end(search, None, None))
    return result, seen[0]


def without_times(result: SearchResult) -> dict[str, Any]:
    return {name: value for name, value in result.to_mapping().items() if name not in ("timing", "refinement")}


@pytest.mark.parametrize("begin", [lattice, launchable, refined], ids=lambda begin: begin.__name__)
def test_an_answer_is_true_wherever_the_search_was_interrupted(begin: Callable[[], SteppedSearch]) -> None:
    answered(begin, float("inf"))  # what is kept from one search to the next is there now
    whole, num_calls = answered(begin, float("inf"))
    assert whole.proof.proved_best
    whole_best_s = min(plan.estimate["step_time_s"] for plan in whole.plans)
    job = ON_TARGET if begin is launchable else JOB
    moments = Random(begin.__name__)
    cut = 0
    for share in (0.01, 0.1, 0.2, 0.4, 0.7, 1.0):  # what is interrupted late is an answer that is only explained
        result, _ = answered(begin, moments.randrange(1, int(share * num_calls)))
        assert result.counts.enumerated == result.counts.legal + sum(rejected.count for rejected in result.rejections)
        assert [plan.rank for plan in result.plans] == list(range(1, len(result.plans) + 1))
        if result.proof.places == whole.proof.places:
            assert without_times(result)["plans"] == without_times(whole)["plans"]
            continue
        if result.proof.proved_best:  # and not yet those behind it
            assert min(plan.estimate["step_time_s"] for plan in result.plans) == whole_best_s
            continue
        cut += 1
        assert result.proof.stopped_by == "interrupt"
        assert result.nearest is None
        assert result.infeasible is None
        strategies = [plan.parallel for plan in result.plans]
        if strategies:
            found = simulate(job, StrategyBatch.of(strategies), CONSTANTS)
            assert legal_mask(job, StrategyBatch.of(strategies)).all()
            assert found.fits.all()
            assert [plan.estimate["step_time_s"] for plan in result.plans] == pytest.approx(found.step_time_s.tolist(), rel=1e-9)
            assert min(found.step_time_s) >= whole_best_s * (1.0 - 1e-9)
    assert cut


@pytest.mark.parametrize("begin", [lattice, launchable, refined], ids=lambda begin: begin.__name__)
def test_progress_says_what_is_being_done_and_never_goes_back(begin: Callable[[], SteppedSearch]) -> None:
    seen: list[Progress] = []
    search = begin()
    explained_result(search, run_to_end(search, None, seen.append, SEARCHED), seen.append)
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    assert set(phases) <= set(PHASES)
    assert phases[-1] == "explain"
    assert ("refine" in phases) == (begin is refined)
    shares = [progress.done_fraction for progress in seen]
    assert shares == sorted(shares)
    assert SEARCHED < shares[-1] < 1.0  # a bar that is full while plans are explained stops, and its clock with it
    explained = [progress.done_fraction for progress in seen if progress.phase == "explain"]
    assert explained[0] == pytest.approx(SEARCHED)
    assert len(set(explained)) == len(explained) > 1
    tried = [
        (progress.enumerated, progress.simulated, progress.sampled, progress.phase, progress.done_fraction) for progress in seen
    ]
    assert len(tried) - len(set(tried)) <= (begin is launchable)  # where one search has ended, the other has not begun


@pytest.mark.parametrize("begin", [lattice, launchable, refined], ids=lambda begin: begin.__name__)
def test_every_plan_is_a_sign_of_life_while_it_is_explained(begin: Callable[[], SteppedSearch]) -> None:
    search, seen = begin(), list[Progress]()
    stopped_by, seconds = run_to_end(search, None, None), iter(range(1000))
    result = explained_result(search, stopped_by, seen.append, lambda: float(next(seconds)))
    assert {progress.phase for progress in seen} == {"explain"}
    assert len(seen) >= len(result.plans)
    elapsed_s = [progress.elapsed_s for progress in seen]
    assert elapsed_s == sorted(set(elapsed_s))


def test_a_plan_is_climbed_once_however_often_the_answer_is_asked_for() -> None:
    search = lattice()
    run_to_end(search, None, None)
    first, again, more = list[Progress](), list[Progress](), list[Progress]()
    for seen in (first, again, more):
        result = explained_result(search, None, seen.append)
    assert len(first) >= len(again) + len(result.plans)
    assert len(again) == len(more)
    explained_result(search, "interrupt", again.append)  # who has had enough is told nothing more
    assert len(again) == len(more)


def test_who_has_had_enough_while_plans_are_explained_gets_the_answer_without_another_word() -> None:
    search, seen = lattice(), list[Progress]()
    run_to_end(search, None, None)

    def enough(progress: Progress) -> bool:
        seen.append(progress)
        return False

    result = explained_result(search, None, enough)
    assert len(seen) == 1
    assert result.proof.proved_best  # all had been found
    assert without_times(result) == without_times(lattice_answer())


def test_layers_move_in_the_first_places_alone_and_not_in_an_answer_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[RankedStrategy] = []

    def noted(prices: Any, placer: Any, simulator: Any, plan: RankedStrategy) -> RankedStrategy:
        moved.append(plan)
        return plan

    monkeypatch.setattr("search.exhaustive.lattice_search.climbed", noted)
    monkeypatch.setattr("search.exhaustive.lattice_search.MOST_CLIMBED", 2)
    search = lattice()
    search.advance()
    assert explained_result(search, "time_limit").plans
    assert moved == []
    assert len(explained_result(search, run_to_end(search, None, None)).plans) == 3
    assert len(moved) == 2


def lattice_answer() -> SearchResult:
    search = lattice()
    return explained_result(search, run_to_end(search, None, None))
