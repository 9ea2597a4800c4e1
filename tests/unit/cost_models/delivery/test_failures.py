"""Rates from logs, by hand and against tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.delivery.failures import poisson_cdf, rate_from_log


def test_poisson_probabilities_by_hand() -> None:
    assert poisson_cdf(-1, 2.0) == 0.0
    assert poisson_cdf(0, 0.0) == 1.0
    assert poisson_cdf(2, 1.5) == pytest.approx(math.exp(-1.5) * (1 + 1.5 + 1.125), rel=1e-14)


def test_the_interval_of_ten_failures_is_that_of_the_tables() -> None:
    found = rate_from_log(10, 1.0, 0.95)
    assert (found.per_node_day, found.num_failures) == (10.0, 10)
    # Exact Poisson limits for a count of 10: 4.795 and 18.390.
    assert (found.low_per_node_day, found.high_per_node_day) == pytest.approx((4.7954, 18.3904), abs=1e-4)


def test_a_log_without_failures_has_an_upper_end() -> None:
    found = rate_from_log(0, 100.0, 0.9)
    assert (found.per_node_day, found.low_per_node_day) == (0.0, 0.0)
    assert found.high_per_node_day == pytest.approx(-math.log(0.05) / 100.0, rel=1e-9)


@given(st.integers(0, 3000), st.floats(0.1, 1e6), st.floats(0.5, 0.99))
def test_the_rate_lies_in_its_interval_and_more_days_narrow_it(count: int, node_days: float, confidence: float) -> None:
    found = rate_from_log(count, node_days, confidence)
    assert found.low_per_node_day <= found.per_node_day < found.high_per_node_day
    tail = (1.0 - confidence) / 2.0
    assert poisson_cdf(count, found.high_per_node_day * node_days) == pytest.approx(tail, abs=1e-6)
