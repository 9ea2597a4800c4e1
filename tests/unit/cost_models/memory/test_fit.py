"""What fits, by hand and for any spread."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.constants import PeakSpread
from cost_models.memory.fit import FitRule, fit_rule, log_error_at
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import MemoryRoom
from tests.workloads import constants, priced, workload

SPREADS = st.builds(PeakSpread, st.floats(-2.0, 0.0), st.one_of(st.just(0.0), st.floats(1e-4, 1.0)))
RULES = st.builds(FitRule, st.floats(1e9, 2e11), st.floats(0.0, 9e8), st.floats(0.5, 0.99), SPREADS)
PEAKS = st.lists(st.floats(1e8, 4e11), min_size=2, max_size=20).map(lambda peaks: np.sort(np.array(peaks)))


def test_a_tenth_lies_beyond_either_end() -> None:
    spread = PeakSpread(-0.3, 0.05)
    assert log_error_at(spread, 0.9) == pytest.approx(0.05)
    assert log_error_at(spread, 0.1) == pytest.approx(-0.3)
    assert log_error_at(spread, 0.5) == 0.0
    # Student's t of two degrees of freedom: its 99 % lie 6.965 from the middle, its 90 % 1.886.
    assert log_error_at(spread, 0.99) == pytest.approx(0.05 * 6.965 / 1.886, rel=1e-3)


def test_the_limit_is_the_room_less_what_errors_may_add() -> None:
    rule = FitRule(60e9, 10e9, 0.9, PeakSpread(-0.3, 0.05))
    assert rule.fit_limit_bytes == pytest.approx(50e9 / np.exp(0.05))
    chances = rule.probability(np.array([50e9 / np.exp(0.05), 50e9, 50e9 * np.exp(0.3)]))
    np.testing.assert_allclose(chances, [0.9, 0.5, 0.1])
    assert rule.ends_bytes(np.array([40e9]))[1] == pytest.approx(40e9 * np.exp(0.05))


def test_without_a_spread_the_prediction_is_the_truth() -> None:
    rule = FitRule(60e9, 0.0, 0.9, PeakSpread())
    assert rule.fit_limit_bytes == 60e9
    assert rule.probability(np.array([59e9, 60e9, 61e9])).tolist() == [1.0, 1.0, 0.0]


@given(RULES, PEAKS)
def test_probability_falls_with_the_peak(rule: FitRule, peaks: np.ndarray) -> None:
    chances = rule.probability(peaks)
    assert np.all((chances >= 0.0) & (chances <= 1.0))
    assert np.all(np.diff(chances) <= 1e-12)


@given(RULES, PEAKS)
def test_a_peak_fits_where_its_probability_reaches_the_confidence(rule: FitRule, peaks: np.ndarray) -> None:
    peaks = peaks[np.abs(peaks / rule.fit_limit_bytes - 1.0) > 1e-9]  # at the limit itself they differ in the last digit
    np.testing.assert_array_equal(peaks <= rule.fit_limit_bytes, rule.probability(peaks) >= rule.confidence - 1e-12)


@given(RULES, st.floats(0.0, 5e10), st.floats(0.5, 0.99))
def test_more_headroom_or_confidence_never_lets_more_fit(rule: FitRule, more_bytes: float, confidence: float) -> None:
    assert replace(rule, min_headroom_bytes=rule.min_headroom_bytes + more_bytes).fit_limit_bytes <= rule.fit_limit_bytes
    low, high = sorted((rule.confidence, confidence))
    assert replace(rule, confidence=high).fit_limit_bytes <= replace(rule, confidence=low).fit_limit_bytes


def test_an_estimate_holds_its_peak_against_the_rule() -> None:
    plans = [ParallelStrategy(micro_batch_size=size) for size in (1, 8, 16, 32)]
    bare = priced(workload(seq_length=16384), *plans)
    room = MemoryRoom(min_headroom_bytes=60e9 - float(bare.peak_memory_bytes[1]) * 1.04, confidence=0.9)
    job = replace(workload(seq_length=16384), room=room)
    unsure = replace(constants(), peak_spread=PeakSpread(-0.1, 0.05))
    assert fit_rule(job, unsure).fit_limit_bytes < bare.peak_memory_bytes[1] < fit_rule(job, constants()).fit_limit_bytes
    exact = priced(job, *plans)
    assert exact.fits.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(exact.peak_memory_bytes, bare.peak_memory_bytes)
    chances = fit_rule(job, unsure).probability(bare.peak_memory_bytes)
    assert 0.5 < chances[1] < 0.9 < chances[0]
