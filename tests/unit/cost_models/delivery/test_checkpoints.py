"""What a checkpoint costs, and how often to make one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.delivery.checkpoints import best_interval_s, checkpoint_cost, daly_interval_s, young_interval_s
from cost_models.delivery.failures import FailureClass
from cost_models.delivery.renewal import effective


def test_an_asynchronous_checkpoint_blocks_for_the_copy_and_drains_behind() -> None:
    found = checkpoint_cost(9.4e12, 2e9, 2.5e10, 1e11, 2e11, asynchronous=True, fixed_s=3.0)
    assert (found.blocking_s, found.drain_s, found.load_s) == pytest.approx((3.08, 94.0, 47.0))
    assert found.least_interval_s == 94.0


def test_a_synchronous_one_blocks_until_all_is_written() -> None:
    found = checkpoint_cost(9.4e12, 2e9, 2.5e10, 1e11, 2e11, asynchronous=False)
    assert (found.blocking_s, found.drain_s, found.least_interval_s) == (94.0, 0.0, 0.0)


def test_young_and_daly_by_hand() -> None:
    assert young_interval_s(50.0, 10_000.0) == 1000.0
    half = 50.0 / 20_000.0
    assert daly_interval_s(50.0, 10_000.0) == pytest.approx(1000.0 * (1 + math.sqrt(half) / 3 + half / 9) - 50.0)
    assert daly_interval_s(30.0, 10.0) == 10.0
    assert daly_interval_s(30.0, math.inf) == math.inf


def test_limits_of_the_best_interval() -> None:
    assert best_interval_s(0.0, 100.0) == 0.0
    assert best_interval_s(10.0, math.inf) == math.inf


@given(st.floats(1e-3, 1e4), st.floats(1.0, 1e7), st.floats(0.0, 3600.0), st.floats(0.3, 3.0).filter(lambda x: abs(x - 1) > 0.01))
def test_no_other_interval_delivers_more(blocking_s: float, mtbf_s: float, recovery_s: float, factor: float) -> None:
    classes = [FailureClass("node", 1.0 / mtbf_s, recovery_s)]
    best_s = best_interval_s(blocking_s, mtbf_s)
    assert 0.0 < best_s <= mtbf_s
    best = effective(classes, best_s, blocking_s).useful
    assert effective(classes, factor * best_s, blocking_s).useful <= best * (1.0 + 1e-9)


@given(st.floats(1e-2, 10.0), st.floats(1e5, 1e7))
def test_daly_is_near_the_best_where_checkpoints_are_cheap(blocking_s: float, mtbf_s: float) -> None:
    assert daly_interval_s(blocking_s, mtbf_s) == pytest.approx(best_interval_s(blocking_s, mtbf_s), rel=1e-4)
