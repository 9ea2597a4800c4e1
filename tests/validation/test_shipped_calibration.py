"""The shipped calibrations belong to this version of the model and to these runs, and hold on runs that they never saw."""

import numpy as np
import pytest

from calibration.files.calibrations import shipped_calibration
from calibration.files.published_errors import published_runs
from calibration.fitting.robust_fit import next_step
from calibration.leave_out.family_errors import (
    ROLLING,
    family_bands,
    family_steps,
    inside_intervals,
    publication_inside,
    shipped_left_out,
    taught,
)
from calibration.leave_out.nested import nested_model
from calibration.procedure.calibrate import family_observations
from calibration.procedure.constants_left_out import Splits, splits_of
from calibration.procedure.free_constants import free_constants
from calibration.records.training import RefusedRecord, RunRecord
from calibration.splits.folds import grouped_folds, rolling_folds
from calibration.splits.groups import model_kind, period, publication

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("family", ["ascend"], indirect=True, scope="session")]

MAX_STEP = 0.01  # of a constant's logarithm: what the fit itself takes as converged
# Median and mean absolute error [%], architecture left out, of rows whose NPU bin is named or likely: reached, with some room.
LEFT_OUT_LIMITS = {
    "dense_single": (5.0, 7.0),  # releases of MindSpore Transformers from 1.1 to 1.6 are among these since 2026-11
    "dense_multi": (4.0, 6.0),
    "long": (8.5, 9.5),
    "moe": (20.5, 21.5),
    "slice": (12.5, 15.5),
}


@pytest.fixture(scope="module")
def splits(family: str, records: list[RunRecord | RefusedRecord]) -> Splits:
    observations = family_observations([r for r in records if isinstance(r, RunRecord)], family)
    return splits_of(shipped_calibration(family), observations)


def test_the_runs_behind_it_are_counted(family: str, splits: Splits) -> None:
    assert len(splits.fitted_model.observations) == shipped_calibration(family).num_runs


def test_a_further_step_of_the_fit_moves_no_constant(splits: Splits) -> None:
    steps = dict(zip(splits.fitted_model.names, next_step(splits.fitted_model).tolist(), strict=True))
    assert {name: step for name, step in steps.items() if abs(step) > MAX_STEP} == {}


@pytest.mark.parametrize("category", LEFT_OUT_LIMITS)
def test_architectures_that_the_fit_never_saw_are_predicted(category: str, splits: Splits) -> None:
    used = [o.record for o in splits.fitted_model.observations]
    mask = np.array([r.category == category and r.hardware_basis != "unclear" for r in used])
    errors = 100 * np.abs(np.expm1(splits.architecture[mask]))
    median, mean = LEFT_OUT_LIMITS[category]
    assert np.median(errors) <= median
    assert errors.mean() <= mean


def test_the_left_out_errors_that_ship_are_those_of_the_constants(family: str, splits: Splits) -> None:
    shipped = {p["id"]: p["left_out_error_fraction"] for p in published_runs(family).predictions}
    used = [o.record.id for o in splits.fitted_model.observations]
    now = np.expm1(splits.architecture)
    np.testing.assert_allclose([shipped[name] for name in used], now, rtol=1e-3, atol=1e-4, err_msg="run `make docs`")
    nested = {p["id"]: p["publication_left_out_error_fraction"] for p in published_runs(family).predictions}
    left_out = dict(zip(shipped_left_out(family).ids, shipped_left_out(family).splits["publication"], strict=True))
    assert [nested[name] for name in used] == pytest.approx([np.expm1(left_out[name]) for name in used], rel=1e-3, abs=1e-4)


def test_it_beats_its_priors_and_one_utilisation(splits: Splits) -> None:
    left_out, prior, utilisation = (np.abs(e).mean() for e in (splits.architecture, splits.prior, splits.utilisation))
    assert left_out < prior < utilisation


@pytest.fixture(scope="module")
def judged(family: str, records: list[RunRecord | RefusedRecord]) -> list[RunRecord]:
    """The runs of the left-out errors that ship, in their order."""
    by_id = {r.id: r for r in records if isinstance(r, RunRecord)}
    return [by_id[name] for name in shipped_left_out(family).ids]


def test_the_nested_errors_that_ship_are_found_again(family: str, splits: Splits) -> None:
    # From the rounded constants; a further fit from there ends elsewhere by less than its own tolerance.
    observations = splits.fitted_model.observations
    shipped = shipped_left_out(family)
    assert shipped.ids[: len(observations)] == tuple(o.record.id for o in observations), "run `make calibration`"
    free = free_constants(family, [o.record.workload.software.stack for o in observations])
    model = nested_model(observations, shipped_calibration(family).constants, family, free)
    groups = {"publication": grouped_folds([publication(o.record) for o in observations])}
    groups[ROLLING] = rolling_folds([period(o.record) for o in observations])
    for name, folds in groups.items():
        now, then = model.log_errors_of(folds), shipped.splits[name][: len(observations)]
        np.testing.assert_allclose(then, now, atol=0.01, err_msg="run `make calibration` and review the diff")


def test_the_bands_and_steps_that_ship_are_those_of_the_nested_errors(family: str, judged: list[RunRecord]) -> None:
    shipped, calibration = shipped_left_out(family), shipped_calibration(family)
    for band, now in zip(calibration.bands, family_bands(judged, shipped), strict=True):
        assert (band.kind, band.num_runs) == (now.kind, now.num_runs)
        assert (band.low, band.high) == pytest.approx((now.low, now.high), rel=5e-3)
    for step, now_step in zip(calibration.steps, family_steps(judged, shipped), strict=True):
        assert (step.kind, step.num_groups, step.num_runs) == (now_step.kind, now_step.num_groups, now_step.num_runs)
        assert step.factor == pytest.approx(now_step.factor, rel=5e-3)
        assert step.factor >= 1.0


def test_nested_errors_are_larger_than_those_of_the_fit_alone(family: str, splits: Splits) -> None:
    plain = np.abs(splits.architecture).mean()
    for split in ("publication", "release", "framework", "chip"):
        assert np.abs(shipped_left_out(family).splits[split][: len(splits.architecture)]).mean() > plain


@pytest.mark.parametrize("split", [ROLLING, "framework", "chip", "combination", "release"])
def test_intervals_cover_what_they_say_whatever_is_left_out(family: str, judged: list[RunRecord], split: str) -> None:
    inside = inside_intervals(judged, shipped_left_out(family), split)[taught(judged)]
    assert 0.75 <= np.nanmean(inside) <= (0.99 if family == "ascend" else 0.92)


def test_intervals_of_other_publications_cover_what_they_say(family: str, judged: list[RunRecord]) -> None:
    inside = publication_inside(judged, shipped_left_out(family))
    # One document holds half of the shapes on Ascend: without it, what is left reaches to its largest error.
    assert 0.75 <= inside.mean() <= (0.97 if family == "ascend" else 0.92)
    kinds = np.array([model_kind(r.workload) for r in judged])
    for kind in set(kinds.tolist()):  # of nine runs one more or less is eleven points
        assert 0.65 <= inside[kinds == kind].mean() <= 1.0, kind
