"""The plan to run: never one that another beats in time and memory, and with its reason."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from search.ranking.recommendation import Candidate, recommended_place, why_recommended

PLAIN = ParallelStrategy(features=DEFAULT_FEATURES)
ODD = replace(PLAIN, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER)
ODDER = replace(PLAIN, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER | Feature.MC2)
TAKEN = ("mindspeed-llm@master",)


def candidate(
    step_time_s: float,
    peak_bytes: float,
    fits: float,
    strategy: ParallelStrategy = PLAIN,
    takers: tuple[str, ...] = TAKEN,
    variants: tuple[tuple[float, float], ...] = (),
) -> Candidate:
    estimate = {"step_time_s": step_time_s, "peak_memory_bytes": peak_bytes, "fits_probability": fits}
    return Candidate(strategy, estimate, takers, variants)


def test_by_hand_a_plainer_plan_that_another_beats_is_not_recommended() -> None:
    # The plan of 122.7 s has no unusual switch; that of 115.2 s has one, and is faster, smaller and surer.
    plans = [candidate(114.7, 57.2, 0.921, ODDER), candidate(115.2, 50.6, 0.991, ODD), candidate(122.7, 51.4, 0.989)]
    assert recommended_place(plans, [1, 1, 1]) == 1
    assert why_recommended(plans, [1, 1, 1], 1, 0.077) == (
        "0.4% slower than plan 1 (error 7.7%), but fits with 99.1%, not 92.1%, one unusual switch fewer"
    )


def test_a_variant_that_beats_a_plan_keeps_it_from_being_recommended() -> None:
    plans = [candidate(10.0, 50.0, 0.95, ODD, variants=((10.2, 40.0),)), candidate(10.4, 45.0, 0.96)]
    assert recommended_place(plans, [1, 1]) == 0
    assert recommended_place([replace(plans[0], variants=()), plans[1]], [1, 1]) == 1


def test_a_plan_outside_the_first_group_is_not_recommended() -> None:
    plans = [candidate(10.0, 50.0, 0.91, ODD), candidate(12.0, 20.0, 0.999)]
    assert recommended_place(plans, [1, 2]) == 0
    assert why_recommended(plans, [1, 2], 0, 0.05) == "plan 1 is the fastest by prediction"
    assert why_recommended(plans, [1, 1], 0, 0.05) == ("fastest by prediction; 1 more within its error of 5.0%")


def test_a_plan_that_no_framework_takes_beats_none_that_one_takes() -> None:
    plans = [candidate(10.0, 40.0, 0.99, takers=()), candidate(10.1, 50.0, 0.95)]
    assert recommended_place(plans, [1, 1]) == 1
    assert "a framework takes it" in why_recommended(plans, [1, 1], 1, 0.05)


NUMBERS = st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([PLAIN, ODD, ODDER]), st.booleans())


@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_no_plan_beats_the_recommended_one_and_a_slower_one_has_a_reason(
    numbers: list[tuple[int, int, ParallelStrategy, bool]],
) -> None:
    ordered = sorted(numbers, key=lambda each: each[:2])
    plans = [candidate(time, peak, 1.0 - peak / 10, strategy, TAKEN if taken else ()) for time, peak, strategy, taken in ordered]
    groups = [1 if plan.numbers[0] < 2 * plans[0].numbers[0] else 2 for plan in plans]
    place = recommended_place(plans, groups)
    chosen = plans[place]
    assert groups[place] == 1
    rivals = [plan for plan in plans if plan.launchable_on or not chosen.launchable_on]
    worse = [
        plan
        for plan in rivals
        if plan.numbers != chosen.numbers
        and plan.numbers[0] <= chosen.numbers[0]
        and plan.numbers[1] <= chosen.numbers[1]
        and plan.estimate["fits_probability"] >= chosen.estimate["fits_probability"]
    ]
    assert worse == []
    if place:
        assert not why_recommended(plans, groups, place, 0.1).rstrip().endswith(":")
