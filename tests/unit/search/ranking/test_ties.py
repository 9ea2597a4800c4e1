from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from search.exhaustive.lattice_search import search
from search.ranking.ties import PairedError, group_of, num_exotic_switches, rank_groups, sturdiness, tie_sentences
from search.results.search_result import SearchResult
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, request, workload

TIMES = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40).map(sorted)
FRACTIONS = st.floats(0.0, 0.5)
FIVE_PER_CENT = PairedError(0.05, 0.8, 12, 40, "12 jobs measured under several plans")


@given(TIMES, FRACTIONS)
def test_groups_are_numbered_from_one_without_a_gap_in_the_order_of_time(times: list[float], fraction: float) -> None:
    groups = rank_groups(times, fraction)
    assert groups[0] == 1
    assert all(after - before in (0, 1) for before, after in pairwise(groups))


@given(TIMES, FRACTIONS)
def test_a_group_is_all_that_is_slower_than_its_first_by_less_than_the_paired_error(times: list[float], fraction: float) -> None:
    groups = rank_groups(times, fraction)
    leaders = [times[groups.index(group)] for group in range(1, groups[-1] + 1)]
    for time_s, group in zip(times, groups, strict=True):
        leader_s = leaders[group - 1]
        assert time_s == leader_s or time_s / leader_s < 1.0 + fraction + 1e-12
        if group > 1:
            assert time_s / leaders[group - 2] >= 1.0 + fraction - 1e-12
        assert group_of(time_s, leaders, fraction) == group


def test_groups_by_hand() -> None:
    # 10 and 10.4 lie within 5 %; 10.5 is not below it and leads 10.9; 11.1 is 5.7 % behind that leader.
    assert rank_groups([10.0, 10.4, 10.5, 10.9, 11.1], 0.05) == [1, 1, 2, 2, 3]
    assert rank_groups([10.0, 10.0, 10.1], 0.0) == [1, 1, 2]
    assert [group_of(time_s, [10.0, 10.5], 0.05) for time_s in (9.0, 9.6, 10.4, 11.0, 11.1)] == [None, 1, 1, 2, None]
    # 10.7 is 7 % behind 10 and 8 % before 11.6: a list that goes on to 11.6 does not make it one of the first group.
    assert [group_of(10.7, leaders_s, 0.05) for leaders_s in ([10.0], [10.0, 11.6])] == [None, None]


def estimate(fits_probability: float) -> dict[str, float]:
    return {"fits_probability": fits_probability}


def test_a_framework_counts_before_room_then_switches_then_more_room() -> None:
    plain = ParallelStrategy(features=DEFAULT_FEATURES)
    odd = replace(plain, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER | Feature.MC2)
    assert num_exotic_switches(plain) == 0
    assert num_exotic_switches(odd) == 2
    best_first = [
        sturdiness(plain, estimate(0.999), ("megatron-lm",)),
        sturdiness(plain, estimate(0.94), ("megatron-lm",)),
        sturdiness(odd, estimate(0.999), ("megatron-lm",)),
        sturdiness(plain, estimate(0.999), ("megatron-lm",), 0.11),
        sturdiness(odd, estimate(0.999), ("megatron-lm",), 0.11),
        sturdiness(plain, estimate(0.89), ("megatron-lm",)),
        sturdiness(plain, estimate(0.999), ()),
    ]
    assert sorted(best_first) == best_first


@pytest.mark.parametrize("limits", [(0.0, 0.89), (0.90, 0.94), (0.95, 1.0)])
@given(parts=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)))
def test_of_two_plans_that_are_about_as_sure_to_fit_none_has_an_advantage(
    limits: tuple[float, float], parts: tuple[float, float]
) -> None:
    least, most = limits
    one, other = (sturdiness(ParallelStrategy(), estimate(least + part * (most - least)), ()) for part in parts)
    assert one == other


def test_a_tie_is_said_with_its_spread_and_what_it_rests_on() -> None:
    sentences = tie_sentences([10.2, 10.0, 10.4, 12.0], [1, 1, 1, 2], FIVE_PER_CENT)
    assert (
        sentences[0]
        == sentences[2]
        == (
            "Plans 1 to 3 cannot be told apart: they lie within 4.0%, below the paired error of 5.0% "
            "(12 jobs measured under several plans)."
        )
    )
    assert sentences[3] is None
    assert (tie_sentences([1.0, 1.01], [1, 1], FIVE_PER_CENT)[0] or "").startswith("Plans 1 and 2 cannot")


# Where memory is short, so that plans of about one time differ in what they leave of it.
LARGE = replace(DENSE, name="large", num_layers=48, hidden_size=5120, num_attention_heads=40, ffn_hidden_size=16384)
JOB: Workload = workload(LARGE)
SPACE = search_space(JOB, SearchLimits(tp=(1, 2, 4, 8), pp=(2, 4), cp=(1,), micro_batch_size=(1, 2)))
CONSTANTS = prior_constants("ascend")
WIDE = replace(FIVE_PER_CENT, fraction=0.12)


@lru_cache
def found(objective: str = "step_time", paired_error: PairedError | None = WIDE) -> SearchResult:
    return search(request(JOB, SPACE, CONSTANTS, objective, top=8, paired_error=paired_error))


def test_an_answer_is_in_the_order_of_time_and_recommends_the_sturdiest_that_none_beats() -> None:
    result = found()
    times = [plan.estimate["step_time_s"] for plan in result.plans]
    groups = [plan.rank_group for plan in result.plans]
    assert groups == sorted(groups)
    assert groups.count(1) > 1
    assert [plan.rank for plan in result.plans] == list(range(1, 9))
    assert [plan.fastest for plan in result.plans] == [time_s == min(times) for time_s in times]
    assert times == sorted(times)
    for group in set(groups):
        tied = [plan for plan in result.plans if plan.rank_group == group]
        own = [plan.estimate["step_time_s"] for plan in tied]
        assert max(own) < min(own) * (1.0 + WIDE.fraction)
    tied = [plan for plan in result.plans if plan.rank_group == 1]
    forms = [form for plan in tied for form in (plan.estimate, *plan.variants)]
    numbers = [(form["step_time_s"], form["peak_memory_bytes"]) for form in forms]
    unbeaten = [
        plan
        for plan in tied
        if not any(
            time_s <= plan.estimate["step_time_s"] and peak < plan.estimate["peak_memory_bytes"] for time_s, peak in numbers
        )
    ]
    chosen = result.recommended
    assert chosen in unbeaten
    sturdiest = min(
        sturdiness(plan.parallel, plan.estimate, plan.launchable_on, plan.strategy["noop_layers"] / LARGE.num_layers)
        for plan in unbeaten
    )
    assert (
        sturdiness(chosen.parallel, chosen.estimate, chosen.launchable_on, chosen.strategy["noop_layers"] / LARGE.num_layers)
        == sturdiest
    )
    assert result.to_mapping()["recommended"]["plan_id"] == chosen.plan_id
    assert result.plans[0].explanation["tie"].startswith(f"Plans 1 {'to' if groups.count(1) > 2 else 'and'} {groups.count(1)} ")


def test_the_order_inside_a_group_takes_no_plan_in_and_leaves_none_out() -> None:
    tied, apart = found(), found(paired_error=None)
    assert {plan.plan_id for plan in tied.plans} == {plan.plan_id for plan in apart.plans}
    again = found.__wrapped__()
    assert [plan.plan_id for plan in again.plans] == [plan.plan_id for plan in tied.plans]


def test_the_proof_stays_that_of_the_fastest() -> None:
    tied, apart = found(), found(paired_error=None)
    assert tied.proof.proved_best
    assert tied.proof.plan_id == apart.proof.plan_id == apart.plans[0].plan_id
    assert tied.best is not None
    assert tied.best.fastest


def test_where_memory_ranks_no_plan_ties_by_time() -> None:
    result = found("memory_headroom")
    assert [plan.rank_group for plan in result.plans] == [plan.rank for plan in result.plans]
    assert result.proof.plan_id == result.plans[0].plan_id
    assert result.baseline is not None
    assert result.baseline.rank_group is None


def test_a_baseline_in_the_first_group_is_said_to_be_no_slower() -> None:
    tied = [plan for plan in found().plans if plan.rank_group == 1]
    slowest = max(tied, key=lambda plan: float(plan.estimate["step_time_s"]))
    again = search(request(JOB, SPACE, CONSTANTS, top=8, baseline=slowest.parallel, paired_error=WIDE))
    assert again.baseline is not None
    assert again.baseline.rank_group == 1
    assert again.baseline.why.endswith("It is in the first group: not measurably slower (paired error 12.0%).")
    assert found().baseline is not None
    assert "measurably" not in found().baseline.why  # the rule of thumb's plan is far behind
