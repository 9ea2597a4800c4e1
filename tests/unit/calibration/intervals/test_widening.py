from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.intervals.step_time import Coverage, ErrorBand, interval
from calibration.intervals.widening import (
    CHIP,
    COMBINATION,
    MECHANISM,
    STACK,
    STEPS,
    WIDER_UNSEEN,
    Step,
    Taken,
    cell,
    factor_of,
    mechanisms_taken,
    step_of,
    steps_taken,
)
from calibration.records.training import RunRecord

Read = Callable[..., RunRecord]
BANDS = (ErrorBand("all", -0.2, 0.3, 40), ErrorBand("dense", -0.2, 0.3, 40))


def test_a_step_costs_the_bands_that_hold_four_in_five_of_its_errors(read: Read) -> None:
    # The first thing has five runs of one shape, at 0.2 to 1.0 bands, and one of another at 3: half of the weight each, so that
    # four in five are held by 3. The second's five of one shape are held by 1.6, the fourth. The larger counts where few are.
    shape, other = (read({"model.num_layers": layers, "strategy.pp": 1, "strategy.dp": 8}) for layers in (32, 16))
    records = [shape] * 5 + [other] + [shape] * 5
    nan = np.nan
    left_out = {
        "a": np.array([0.2, 0.4, 0.6, 0.8, 1.0, 3.0, *[nan] * 5]),
        "b": np.array([*[nan] * 6, 2.0, 0.4, 1.6, 0.8, 1.2]),
        "none": np.full(11, nan),
    }
    assert step_of(STACK, records, left_out) == Step(STACK, pytest.approx(3.0), 2, 11)
    assert step_of(STACK, records, {"b": left_out["b"]}) == Step(STACK, pytest.approx(1.6), 1, 5)


def test_a_step_never_narrows_and_one_without_runs_is_guessed(read: Read) -> None:
    records = [read()]
    assert step_of(CHIP, records, {"a": np.array([0.1])}).factor == 1.0
    assert step_of(CHIP, records, {"a": np.array([np.nan])}) == Step(CHIP, WIDER_UNSEEN, 0, 0)


def test_four_in_five_of_further_things_cost_no_more(read: Read) -> None:
    # Nine things, at 1.1 to 1.9 bands: the eighth of them, ceil(0.8 x 10).
    left_out = {f"{n}": np.where(np.arange(9) == n, 1.1 + 0.1 * n, np.nan) for n in range(9)}
    assert step_of(CHIP, [read()] * 9, left_out) == Step(CHIP, pytest.approx(1.8), 9, 9)


def test_another_framework_is_an_unseen_stack_whatever_prices_it(read: Read) -> None:
    workload = read().workload
    other = replace(workload, software=replace(workload.software, other_framework=True))
    (taken,) = steps_taken(other, [cell(workload)])
    assert (taken.kind, taken.sentence) == (STACK, "stack unseen: another framework, priced as mindspeed-llm")


def test_steps_that_have_nothing_to_do_with_each_other_add_in_squares() -> None:
    steps = (Step(STACK, 2.0, 2, 10), Step(CHIP, 3.0, 2, 10))
    stack, chip = Taken(STACK, "a"), Taken(CHIP, "b")
    assert factor_of([], steps) == 1.0
    assert factor_of([stack], steps) == pytest.approx(2.0)
    assert factor_of([stack, stack, chip], steps) == pytest.approx((1 + 3 + 8) ** 0.5)  # two of one kind are one
    assert factor_of([Taken(MECHANISM, "c")], steps) == pytest.approx(WIDER_UNSEEN)


def test_the_steps_of_a_workload_are_named(read: Read) -> None:
    workload = read().workload
    here = ("atlas-900-a2-podc", "mindspeed-llm", "dense")
    assert cell(workload) == here
    assert steps_taken(workload, [here]) == []
    (other_kind,) = steps_taken(workload, [(*here[:2], "moe")])
    assert (other_kind.kind, other_kind.sentence) == (
        COMBINATION,
        "no measured run of a dense model with mindspeed-llm on atlas-900-a2-podc",
    )
    chip, stack = (("atlas-800t-a2", *here[1:]), (here[0], "mindformers", here[2]))
    assert [t.kind for t in steps_taken(workload, [chip])] == [CHIP]
    assert [t.kind for t in steps_taken(workload, [stack])] == [STACK]
    assert [t.kind for t in steps_taken(workload, [chip, stack])] == [COMBINATION]
    assert [t.kind for t in steps_taken(workload, [])] == [STACK, CHIP]


def test_mechanisms_that_no_run_has_shown_are_one_step() -> None:
    assert mechanisms_taken({"a", "b"}, {"a", "b", "c"}) == []
    (step,) = mechanisms_taken({"switch y", "switch x", "c"}, {"c"})
    assert (step.kind, step.sentence) == (MECHANISM, "mechanism unseen: no measured run with switch x, switch y")


@given(factors=st.tuples(*[st.floats(1.0, 10.0)] * len(STEPS)), unseen=st.sets(st.sampled_from(STEPS)))
def test_an_interval_beyond_the_measured_runs_is_never_narrower(factors: tuple[float, ...], unseen: set[str]) -> None:
    steps = [Step(kind, factor, 1, 1) for kind, factor in zip(STEPS, factors, strict=True)]
    known = factor_of([Taken(kind, kind) for kind in unseen], steps)
    assert known >= 1.0
    assert all(factor_of([Taken(kind, kind) for kind in {*unseen, more}], steps) >= known for more in STEPS)


def test_the_interval_of_an_unseen_stack_holds_that_of_the_seen(read: Read) -> None:
    workload = read().workload
    covered = (Coverage("atlas-900-a2-podc", "mindspeed-llm", "dense", 30, 64, 8192),)
    elsewhere = replace(workload, software=replace(workload.software, stack="mindformers"))
    for steps in ((), (Step(STACK, 1.0, 2, 10),), (Step(STACK, 2.0, 2, 10),)):
        seen, unseen = (interval(w, 1.0, BANDS, covered, steps) for w in (workload, elsewhere))
        assert unseen.low_s <= seen.low_s < 1.0 < seen.high_s <= unseen.high_s
    assert np.log(unseen.high_s) == pytest.approx(2.0 * 0.3)
    assert unseen.extrapolated == ("stack unseen: no measured run with mindformers",)
