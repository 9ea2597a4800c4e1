"""Ranking and bounding by more than the lattice's own order, with measures worked by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy
from search.exhaustive.lattice_search import search
from search.ranking.criteria import Judgement, Limit, Measure, Value
from search.results.search_result import SearchResult
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 4, 8), vpp=(1, 2), cp=(1,), micro_batch_size=(1, 2))
Numbers = Sequence[Mapping[str, Any]]


def measure(name: str, of_step: float, of_stage: float) -> Measure:
    """So much of each second of the step, and so much of each pipeline stage."""

    def values(strategies: Sequence[ParallelStrategy], estimates: Numbers) -> list[Value]:
        found = [of_step * each["step_time_s"] + of_stage * one.pp for one, each in zip(strategies, estimates, strict=True)]
        return [Value(value, -value, f"{value:.3f} of it") for value in found]

    return Measure(name, values, lambda step_s: of_step * step_s + of_stage)


def at_most(step_s: float) -> Limit:
    return Limit(
        lambda strategies, estimates: [each["step_time_s"] for each in estimates], step_s, lambda least: f"Not below {least:.3f}."
    )


def judged(*measures: Measure, limits: tuple[Limit, ...] = (), top: int = 5) -> SearchResult:
    job = workload(DENSE)
    return search(job, search_space(job, LIMITS), CONSTANTS, judgement=Judgement(measures, limits, top))


STEP = measure("step_time", 1.0, 0.0)


def test_another_objective_ranks_the_fastest_structures_and_says_why() -> None:
    result = judged(measure("energy", 1.0, 100.0))
    stages = [plan.parallel.pp for plan in result.plans]
    assert stages == sorted(stages)
    values = [plan.ordered_by["energy"] for plan in result.plans]
    assert values == sorted(values)
    assert len(result.plans) == 5
    first = result.plans[0]
    assert first.values["energy"] == -first.ordered_by["energy"]
    assert str(first.explanation["objective"]).startswith(f"{first.ordered_by['energy']:.3f} of it; ")
    assert [plan.rank_group for plan in result.plans] == [1, 2, 3, 4, 5]


def test_the_gap_is_what_the_shortest_step_would_allow() -> None:
    shortest_s = judged(STEP).plans[0].estimate["step_time_s"]
    result = judged(replace(measure("energy", 1.0, 100.0), least=lambda step_s: step_s))
    value = result.plans[0].ordered_by["energy"]
    assert result.proof.objective == "energy"
    assert result.proof.plan_id == result.plans[0].plan_id
    assert result.proof.optimality_gap_fraction == pytest.approx((value - shortest_s) / value, abs=1e-3)
    assert not result.proof.proved_best
    assert result.proof.scope == judged(STEP).proof.scope


def test_what_grows_with_the_step_alone_is_proved_with_it() -> None:
    result = judged(measure("cost", 3.0, 0.0))
    assert result.proof.proved_best
    assert result.proof.optimality_gap_fraction == 0.0
    assert result.proof.scope == judged(STEP).proof.scope
    assert result.plans[0].parallel == judged(STEP).plans[0].parallel


def test_of_several_objectives_the_first_ranks_and_the_front_is_told() -> None:
    result = judged(STEP, measure("energy", 0.0, 1.0), top=2)
    assert result.proof.objective == "step_time"
    assert len(result.plans) == 2
    assert result.pareto[0].ordered_by["step_time"] == min(plan.ordered_by["step_time"] for plan in result.pareto)
    stages = [plan.ordered_by["energy"] for plan in result.pareto]
    assert stages == sorted(set(stages), reverse=True)
    assert judged(STEP).pareto == ()


def test_a_limit_drops_plans_and_says_of_none_what_is_nearest() -> None:
    free = judged(STEP)
    middle_s = free.plans[2].estimate["step_time_s"]
    bound = judged(STEP, limits=(at_most(middle_s),))
    assert bound.proof.proved_best
    assert all(plan.estimate["step_time_s"] <= middle_s for plan in bound.plans)
    none = judged(STEP, limits=(at_most(0.0),))
    assert none.plans == ()
    assert none.nearest == f"Not below {min(plan.estimate['step_time_s'] for plan in free.plans):.3f}."


def test_a_limit_that_drops_the_fastest_leaves_nothing_proved() -> None:
    fastest_s = judged(STEP).plans[0].estimate["step_time_s"]
    slower = replace(
        at_most(0.0), numbers=lambda strategies, estimates: [-each["step_time_s"] for each in estimates], most=-fastest_s - 1e-9
    )
    result = judged(STEP, limits=(slower,))
    assert result.plans
    assert not result.proof.proved_best
    assert result.proof.optimality_gap_fraction is None
