"""Where the time goes under failures, by hand and at its limits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.delivery.failures import FailureClass
from cost_models.delivery.renewal import effective, interruptions

RATES = st.floats(1e-7, 1e-3)
CLASSES = st.lists(
    st.builds(FailureClass, st.sampled_from(["a", "b", "c"]), RATES, st.floats(0.0, 5e3), st.booleans(), st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.name,
)


def test_one_class_is_the_formula_of_renewal_theory() -> None:
    mtbf_s, recovery_s, interval_s, blocking_s = 11_160.0, 600.0, 900.0, 30.0
    found = effective([FailureClass("node", 1 / mtbf_s, recovery_s)], interval_s, blocking_s)
    expected = interval_s / (mtbf_s * math.exp(recovery_s / mtbf_s) * math.expm1((interval_s + blocking_s) / mtbf_s))
    assert found.useful == pytest.approx(expected, rel=1e-13)


def test_without_failures_only_checkpoints_cost() -> None:
    found = effective([], 900.0, 100.0)
    assert (found.useful, found.checkpoints, found.repeated) == pytest.approx((0.9, 0.1, 0.0))
    assert effective([], math.inf, 100.0).useful == 1.0
    assert effective([FailureClass("node", 0.0, 600.0)], 900.0, 0.0).useful == 1.0


def test_a_class_that_keeps_its_state_costs_its_downtime_alone() -> None:
    found = effective([FailureClass("node", 1e-4, 100.0, keeps_state=True)], math.inf, 5.0)
    assert found.repeated == 0.0
    assert found.useful == pytest.approx(math.exp(-0.01), rel=1e-12)  # 1 / (1 + expm1(rate R))


def test_two_classes_by_hand() -> None:
    rate_a, rate_b, recovery_a, recovery_b = 1e-3, 3e-3, 100.0, 50.0
    met = interruptions([FailureClass("a", rate_a, recovery_a), FailureClass("b", rate_b, recovery_b, keeps_state=True)])
    rate = rate_a + rate_b
    ends_a, ends_b = math.exp(-rate * recovery_a), math.exp(-rate * recovery_b)
    ending = 0.25 * ends_a + 0.75 * ends_b
    assert met.mtbf_s == pytest.approx(250.0)
    assert met.recovery_s["a"] == pytest.approx(0.25 / ending * (1 - ends_a) / rate)
    # Work survives a fault of b unless its recovery is struck by one of a, be it behind others of b.
    survives = 0.75 * ends_b / (1 - 0.75 * (1 - ends_b))
    assert met.lossy_mtbf_s == pytest.approx(250.0 / (1 - survives))


def test_a_job_that_never_reaches_a_checkpoint_delivers_nothing() -> None:
    found = effective([FailureClass("node", 1.0, 10.0)], 1e4, 0.0)
    assert found.useful == 0.0
    assert found.repeated + sum(found.recovery.values()) == pytest.approx(1.0)
    assert effective([FailureClass("node", 1.0, 1e4)], 1.0, 0.0).useful == 0.0


@given(CLASSES, st.floats(1.0, 1e5), st.floats(0.0, 600.0))
def test_fractions_sum_to_one_and_more_failures_never_help(
    classes: list[FailureClass], interval_s: float, blocking_s: float
) -> None:
    found = effective(classes, interval_s, blocking_s)
    assert found.useful + found.checkpoints + found.repeated + sum(found.recovery.values()) == pytest.approx(1.0, abs=1e-9)
    more = [FailureClass(c.name, 2 * c.rate_per_s, c.recovery_s, c.keeps_state) for c in classes]
    assert effective(more, interval_s, blocking_s).useful <= found.useful * (1 + 1e-12)
    keeping = [FailureClass(c.name, c.rate_per_s, c.recovery_s, keeps_state=True) for c in classes]
    assert effective(keeping, interval_s, blocking_s).useful >= found.useful * (1 - 1e-12)
