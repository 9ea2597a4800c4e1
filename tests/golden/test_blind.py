"""Errors of the runs that teach nothing, pinned beside those of the release before: the diff is the review."""

from collections.abc import Callable

import numpy as np
import pytest

from scripts.accuracy.blind import BlindErrors, BlindRuns, Prediction, noise, report, worsened


def test_blind_errors_are_those_pinned(check_golden: Callable[[str, str], None]) -> None:
    check_golden("blind.md", report())


def test_no_kind_is_worse_than_in_the_release_before_by_more_than_noise() -> None:
    assert worsened(BlindRuns().kinds()) == []


def test_errors_of_two_runs_by_hand() -> None:
    runs = BlindRuns()
    own = runs.records[:2]
    measured = [float(record.measured.step_time_s or 0.0) for record in own]
    # 10 % too slow inside its interval, 30 % too fast outside.
    predicted = [Prediction(1.1 * measured[0], 0.9 * measured[0], 1.3 * measured[0])]
    predicted += [Prediction(0.7 * measured[1], 0.6 * measured[1], 0.9 * measured[1])]
    found = BlindErrors.of(own, predicted)
    assert (found.count, found.inside) == (2, 0.5)
    np.testing.assert_allclose([found.median, found.mean, found.bias], [0.2, 0.2, -0.1])


def test_a_kind_that_got_worse_is_named() -> None:
    def at(mean: float) -> BlindErrors:
        return BlindErrors(4, mean, mean, 0.0, 0.8)

    assert noise("Hopper dense", 4) == pytest.approx(0.014)
    assert noise("Ascend MoE", 4) == pytest.approx(0.023)
    kinds = {name: {"before": at(0.10), "now": at(now)} for name, now in {"Hopper dense": 0.113, "Hopper MoE": 0.115}.items()}
    assert worsened(kinds) == ["Hopper MoE"]
