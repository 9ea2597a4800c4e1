"""Lengths of answers: means under a cap, quantiles, groups, and the same draw every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.post_training.lengths import ResponseLengths, draw_lengths, lengths_from_mean, lengths_from_quantile


def test_without_spread_all_answers_have_the_mean_length() -> None:
    drawn = draw_lengths(lengths_from_mean(700.0, 1426, sigma=0.0), 32, 16)
    assert drawn.shape == (32, 16)
    assert set(drawn.ravel().tolist()) == {700}


def test_a_mean_at_the_cap_cuts_every_answer_off() -> None:
    lengths = lengths_from_mean(4096.0, 4096)
    assert lengths.truncated_fraction == 1.0
    assert set(draw_lengths(lengths, 4, 4).ravel().tolist()) == {4096}


def test_under_a_far_cap_the_mean_is_that_of_the_lognormal() -> None:
    lengths = lengths_from_mean(1000.0, 10**9, sigma=0.5)
    assert np.exp(lengths.mu + 0.5**2 / 2) == pytest.approx(1000.0, rel=2e-3)
    assert lengths.quantile(np.array([0.5]))[0] == pytest.approx(1000.0 * np.exp(-0.125), rel=2e-3)


@given(st.floats(50, 5000), st.floats(1.2, 40), st.floats(0.1, 1.5), st.integers(0, 5))
def test_a_step_has_the_mean_that_was_asked_for(mean: float, ratio: float, sigma: float, seed: int) -> None:
    lengths = lengths_from_mean(mean, int(mean * ratio), sigma)
    drawn = draw_lengths(lengths, 64, 16, seed)
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.max() <= int(mean * ratio)
    assert np.array_equal(drawn, draw_lengths(lengths, 64, 16, seed))


def test_a_quantile_takes_the_place_of_sigma() -> None:
    lengths = lengths_from_quantile(1000.0, 100_000, 0.9, 2000.0)
    assert lengths.mean == pytest.approx(1000.0, rel=5e-3)
    assert lengths.quantile(np.array([0.9]))[0] == pytest.approx(2000.0, rel=0.02)


def test_answers_to_one_prompt_are_alike_where_they_share_the_spread() -> None:
    def within(share: float) -> float:
        drawn = np.log(draw_lengths(lengths_from_mean(1000.0, 10**6, 0.7, share), 200, 8))
        return float(drawn.var(axis=1).mean() / drawn.var())

    assert within(1.0) == pytest.approx(0.0, abs=0.01)
    assert within(0.7) == pytest.approx(0.3 * 7 / 8, abs=0.06)
    assert within(0.0) == pytest.approx(7 / 8, abs=0.06)


def test_a_histogram_is_drawn_with_its_weights_and_the_cap() -> None:
    lengths = ResponseLengths(0.0, 0.0, 300, histogram=((100, 200, 400), (1.0, 2.0, 1.0)))
    values, counts = np.unique(draw_lengths(lengths, 25, 4), return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {100: 25, 200: 50, 300: 25}
