"""Ranking and bounding by more than the lattice's own order, with objectives worked by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy
from search.exhaustive.lattice_search import search
from search.objectives.objective import Criterion, Direction, Objective, ObjectiveContext, Operation, PointValue, Value
from search.ranking.criteria import PlanLimit, RankingCriteria
from search.results.search_result import SearchResult
from search.session.request import SearchRequest
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 4, 8), vpp=(1, 2), cp=(1,), micro_batch_size=(1, 2))
Numbers = Sequence[Mapping[str, Any]]


def objective(name: str, of_step: float, of_stage: float) -> Objective:
    """So much of each second of the step, and so much of each pipeline stage."""

    def values(context: ObjectiveContext, strategies: Sequence[ParallelStrategy], estimates: Numbers) -> list[Value]:
        found = [of_step * each["step_time_s"] + of_stage * one.pp for one, each in zip(strategies, estimates, strict=True)]
        return [Value(value, -value, f"{value:.3f} of it") for value in found]

    return Objective(
        name=name,
        unit="",
        direction=Direction.LARGER,
        orders_lattice_by=Criterion.STEP_TIME if name == "step_time" else None,
        needs=frozenset(),
        values=values,
        lower_bound=lambda context, step_s: of_step * step_s + of_stage,
        of_point=PointValue(lambda point: None, "best", "a plan"),
    )


def at_most(step_s: float) -> PlanLimit:
    return PlanLimit(
        lambda strategies, estimates: [each["step_time_s"] for each in estimates], step_s, lambda least: f"Not below {least:.3f}."
    )


def ranked(*objectives: Objective, limits: tuple[PlanLimit, ...] = (), top: int = 5) -> SearchResult:
    job = workload(DENSE)
    context = ObjectiveContext(job, CONSTANTS, 0, lambda *of: Operation(1.0, 1.0, 0), lambda of: 1.0, None, None)
    criteria = RankingCriteria(objectives, context, limits, top)
    return search(SearchRequest(job, search_space(job, LIMITS), CONSTANTS, criteria=criteria))


STEP = objective("step_time", 1.0, 0.0)


def test_another_objective_ranks_the_fastest_structures_and_says_why() -> None:
    result = ranked(objective("energy", 1.0, 100.0))
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
    shortest_s = ranked(STEP).plans[0].estimate["step_time_s"]
    result = ranked(replace(objective("energy", 1.0, 100.0), lower_bound=lambda context, step_s: step_s))
    value = result.plans[0].ordered_by["energy"]
    assert result.proof.objective == "energy"
    assert result.proof.plan_id == result.plans[0].plan_id
    assert result.proof.optimality_gap_fraction == pytest.approx((value - shortest_s) / value, abs=1e-3)
    assert not result.proof.proved_best
    assert result.proof.scope == ranked(STEP).proof.scope


def test_what_grows_with_the_step_alone_is_proved_with_it() -> None:
    result = ranked(objective("cost", 3.0, 0.0))
    assert result.proof.proved_best
    assert result.proof.optimality_gap_fraction == 0.0
    assert result.proof.scope == ranked(STEP).proof.scope
    assert result.plans[0].parallel == ranked(STEP).plans[0].parallel


@pytest.mark.parametrize("offset", [0.0, 1e3], ids=["no-more-than-zero", "below-zero"])
def test_a_value_that_is_not_above_zero_proves_nothing_by_itself(offset: float) -> None:
    """Each second of a step earns something, so that the bound is a step of all plans away from the best value."""
    fastest_s = ranked(STEP).plans[0].estimate["step_time_s"]
    earning = objective("cost", 0.0, 0.0)
    earning = replace(
        earning,
        values=lambda context, strategies, estimates: [
            Value(value := fastest_s - each["step_time_s"] - offset, value, "earned") for each in estimates
        ],
        lower_bound=lambda context, step_s: -1e6,
    )
    proof = ranked(earning).proof
    assert not proof.proved_best
    assert proof.optimality_gap_fraction is not None
    assert proof.optimality_gap_fraction > 0.0


def test_of_several_objectives_the_first_ranks_and_the_front_is_told() -> None:
    result = ranked(STEP, objective("energy", 0.0, 1.0), top=2)
    assert result.proof.objective == "step_time"
    assert len(result.plans) == 2
    assert result.pareto[0].ordered_by["step_time"] == min(plan.ordered_by["step_time"] for plan in result.pareto)
    stages = [plan.ordered_by["energy"] for plan in result.pareto]
    assert stages == sorted(set(stages), reverse=True)
    assert ranked(STEP).pareto == ()


def test_a_limit_drops_plans_and_says_of_none_what_is_nearest() -> None:
    free = ranked(STEP)
    middle_s = free.plans[2].estimate["step_time_s"]
    bound = ranked(STEP, limits=(at_most(middle_s),))
    assert bound.proof.proved_best
    assert all(plan.estimate["step_time_s"] <= middle_s for plan in bound.plans)
    none = ranked(STEP, limits=(at_most(0.0),))
    assert none.plans == ()
    assert none.nearest == f"Not below {min(plan.estimate['step_time_s'] for plan in free.plans):.3f}."


def test_a_limit_that_drops_the_fastest_leaves_nothing_proved() -> None:
    fastest_s = ranked(STEP).plans[0].estimate["step_time_s"]
    slower = replace(
        at_most(0.0), numbers=lambda strategies, estimates: [-each["step_time_s"] for each in estimates], most=-fastest_s - 1e-9
    )
    result = ranked(STEP, limits=(slower,))
    assert result.plans
    assert not result.proof.proved_best
    assert result.proof.optimality_gap_fraction is None
