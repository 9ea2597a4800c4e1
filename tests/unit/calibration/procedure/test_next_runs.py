"""What a run takes off the variance of a job's log step time: by hand, against brute force, and what greedy choice keeps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.files.calibrations import FAMILIES, parse_calibration, shipped_calibration
from calibration.fitting.error_scale import ERROR_SCALE
from calibration.procedure.free_constants import SITE_LOG_SPREAD
from calibration.procedure.next_runs import STEP_OF_LOG, Uncertainty, lessons, log_gradient, moved_constants, site_uncertainty
from cost_models.constants import CONSTANTS, prior_constants
from documents.errors import InputError


def test_one_constant_by_hand() -> None:
    # A constant of variance 0.04; the job's time moves with it one to one, the run's by a half. The run's variance is
    # 0.25 x 0.04 + 0.0036 = 0.0136, their covariance 0.02: 0.02^2 / 0.0136 = 0.0294 of 0.04 goes.
    assert ERROR_SCALE == 0.06
    (found,) = lessons(Uncertainty((), np.array([[0.04]])), np.array([1.0]), np.array([[0.5]]), np.array([1.0]))
    assert found.variance_before == pytest.approx(0.04)
    assert found.variance_after == pytest.approx(0.04 - 0.02**2 / 0.0136)


def test_the_same_taught_for_less_comes_first_and_nothing_costs_nothing() -> None:
    covariance = np.diag([0.04, 0.01])
    runs = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    found = lessons(Uncertainty(("a",), covariance), np.array([1.0, 1.0]), runs, np.array([200.0, 100.0, 1e-3]), how_many=2)
    assert [lesson.index for lesson in found] == [1, 0]  # the run that teaches nothing is cheapest, and never chosen before
    assert found[1].variance_before == pytest.approx(found[0].variance_after)


def test_what_the_first_run_taught_is_worth_no_second_price() -> None:
    # Two constants of equal weight in the job. The cheap run teaches the first; its twin, a little cheaper than the run that
    # teaches the second, has then too little left to teach.
    runs = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = lessons(Uncertainty(("a",), 0.09 * np.eye(2)), np.array([1.0, 1.0]), runs, np.array([1.0, 1.2, 1.3]), how_many=2)
    assert [lesson.index for lesson in found] == [0, 2]


vectors = st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3)


@given(st.lists(vectors, min_size=1, max_size=5), vectors, st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3))
def test_the_variance_left_is_that_of_all_chosen_runs_at_once(
    runs: list[list[float]], job: list[float], spreads: list[float]
) -> None:
    covariance = np.diag(np.square(spreads))
    of_runs, of_job = np.array(runs), np.array(job)
    found = lessons(Uncertainty(("a", "b"), covariance), of_job, of_runs, np.ones(len(runs)))
    chosen = of_runs[[lesson.index for lesson in found]]
    information = np.linalg.inv(covariance) + chosen.T @ chosen / ERROR_SCALE**2  # of a linear fit to those runs
    assert found[-1].variance_after == pytest.approx(of_job @ np.linalg.inv(information) @ of_job, rel=1e-6, abs=1e-9)
    assert len({lesson.index for lesson in found}) == len(found) == min(3, len(runs))
    before = [lesson.variance_before for lesson in found]
    after = [lesson.variance_after for lesson in found]
    assert all(b >= a - 1e-12 for b, a in zip(before, after, strict=True))


@given(st.lists(vectors, min_size=2, max_size=6), vectors, st.lists(st.floats(0.1, 10.0), min_size=6, max_size=6))
def test_no_other_first_run_takes_off_more_for_its_price(runs: list[list[float]], job: list[float], prices: list[float]) -> None:
    uncertainty, of_runs, of_job = Uncertainty(("a", "b"), 0.01 * np.eye(3)), np.array(runs), np.array(job)
    device_s = np.array(prices[: len(runs)])
    first = lessons(uncertainty, of_job, of_runs, device_s, how_many=1)[0]

    def worth(index: int) -> float:
        information = np.linalg.inv(uncertainty.covariance) + np.outer(of_runs[index], of_runs[index]) / ERROR_SCALE**2
        return float(uncertainty.variance(of_job) - of_job @ np.linalg.inv(information) @ of_job) / device_s[index]

    assert worth(first.index) == pytest.approx(max(worth(index) for index in range(len(runs))), rel=1e-6, abs=1e-9)


def test_derivatives_are_those_of_a_power_law() -> None:
    constants = prior_constants("nvidia")
    names = ("matmul_fraction", "vector_fraction")

    def time_s(moved: object) -> float:
        return float(getattr(moved, names[0]) ** -0.7 * getattr(moved, names[1]) ** 0.2)

    moved = moved_constants(constants, names)
    times = np.array([[time_s(c), 5.0 * time_s(c)] for c in moved])
    assert log_gradient(moved, names, times) == pytest.approx(np.array([[-0.7, 0.2, 1.0]] * 2))


def test_a_constant_at_the_end_of_its_range_moves_back() -> None:
    constants = prior_constants("nvidia").with_values({"matmul_fraction": 1.15})
    _, moved = moved_constants(constants, ["matmul_fraction"])
    assert moved.matmul_fraction == pytest.approx(1.15 * np.exp(-STEP_OF_LOG))


@pytest.mark.parametrize("family", FAMILIES)
def test_before_its_first_run_a_site_strays_in_every_constant_and_as_a_whole(family: str) -> None:
    calibration = shipped_calibration(family)
    stack = {"ascend": "mindformers", "gpu": "fsdp"}[family]
    found = site_uncertainty(calibration, stack)
    spreads = {entry.name: entry.log_spread for entry in calibration.fitted}
    sources = {constant.name: constant.log_spread for constant in CONSTANTS}
    expected = [spreads[name] ** 2 + SITE_LOG_SPREAD**2 if name in spreads else sources[name] ** 2 for name in found.names]
    expected.append(SITE_LOG_SPREAD**2)
    assert (
        set(found.names)
        >= {"ascend": {"score_bytes", "fused_tp_exposed_fraction"}, "gpu": {"score_bytes", "step_overhead_s"}}[family]
    )
    assert np.diag(found.covariance) == pytest.approx(expected)
    assert np.linalg.eigvalsh(found.covariance).min() > 0.0


def test_correlations_of_a_fit_are_kept_with_its_constants() -> None:
    shipped = shipped_calibration("gpu")
    count = len(shipped.fitted)
    values = [0.0] * (count * (count - 1) // 2)
    values[0], values[1] = 0.5, -0.25  # of the second with the first, of the third with the first
    spread = [entry.log_spread for entry in shipped.fitted]
    covariance = replace(shipped, correlations=tuple(values)).covariance
    assert covariance[1, 0] == covariance[0, 1] == pytest.approx(0.5 * spread[0] * spread[1])
    assert covariance[2, 0] == pytest.approx(-0.25 * spread[0] * spread[2])
    assert np.diag(covariance) == pytest.approx(np.square(spread))


def test_a_file_with_too_few_correlations_is_refused() -> None:
    text = (
        '{"format": "meshplan-calibration/1", "family": "gpu", "bands": [{"kind": "all", "low": -1, "high": 1, "num_runs": 1}],'
    )
    text += '"coverage": [], "num_runs": 1, "command": "x", "correlations": [0.5], "fitted": []}'
    with pytest.raises(InputError, match="correlations: holds 1 of the 0 pairs"):
        parse_calibration(text, "own.json")
