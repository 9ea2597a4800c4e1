"""Nested leave-out on runs whose numbers are known, because the model itself made their step times."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.fitting.robust_fit import Observation, observation_of
from calibration.fitting.tuned_numbers import TUNED
from calibration.leave_out.family_errors import SPLITS, left_out_errors
from calibration.leave_out.nested import NestedModel, nested_model
from calibration.records.training import RunRecord
from calibration.splits.folds import Fold, grouped_folds
from cost_models.constants import Constants, prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

Read = Callable[..., RunRecord]
PRIORS = prior_constants("ascend")
FREE = ("matmul_fraction", "backward_tp_exposed_fraction")


def run(read: Read, truth: Constants, **changes: object) -> Observation:
    record = read(changes)
    step_time_s = float(simulate(record.workload, StrategyBatch.of([record.strategy]), truth).step_time_s[0])
    found = observation_of(replace(record, measured=replace(record.measured, step_time_s=step_time_s)), PRIORS)
    assert isinstance(found, Observation)
    return found


@pytest.fixture
def observations(read: Read) -> list[Observation]:
    """Six runs with slower matmuls than any source says."""
    truth = PRIORS.with_values({"matmul_fraction": 0.8})
    found = []
    for length in (2048, 4096, 16384):
        for tp, pp in ((8, 1), (1, 8)):
            found.append(run(read, truth, **{"training.seq_length": length, "strategy.tp": tp, "strategy.pp": pp}))
    return found


@pytest.fixture
def model(observations: list[Observation]) -> NestedModel:
    return nested_model(observations, PRIORS, "ascend", FREE)


def value(model: NestedModel, name: str) -> float:
    (index,) = (i for i, number in enumerate(model.numbers) if number.name == name)
    return float(np.exp(model.log_values[index]))


def test_what_the_runs_say_is_found_from_priors_without_them(model: NestedModel) -> None:
    assert np.abs(model.log_errors).max() < 0.02
    assert value(model, "matmul_fraction") < 0.9  # where sources put it, and the runs share the rest out


def test_what_no_run_says_goes_back_to_what_it_is_without_runs(model: NestedModel) -> None:
    # Dense runs say nothing of experts, nor eager ones of graphs, whatever the priors that runs gave them.
    neutral = {number.name: number.ascend for number in TUNED}
    for name in ("permute_passes", "host_moe_sync_s", "early_graph_factor", "PERMUTE_FUSION_FRACTION"):
        assert value(model, name) == pytest.approx(neutral[name], rel=1e-3)
    assert PRIORS.permute_passes == 20.0 != neutral["permute_passes"]


def test_a_free_constant_whose_prior_is_no_runs_keeps_it(model: NestedModel) -> None:
    (number,) = (n for n in model.numbers if n.name == "backward_tp_exposed_fraction")
    assert (number.ascend, number.log_spread) == (0.7, 0.2)


def test_with_every_run_left_out_only_sources_are_left(model: NestedModel) -> None:
    nobody = np.zeros(len(model.observations), dtype=bool)
    away = model.prior - model.log_values
    np.testing.assert_allclose(model.step(nobody), np.clip(away, -0.7, 0.7), atol=1e-9)  # no step is longer


def test_a_left_out_error_is_that_of_a_true_refit(model: NestedModel, observations: list[Observation]) -> None:
    # All runs of 16,384 tokens are left out: the refit without them starts from its own derivatives.
    out = np.array([o.record.workload.training.seq_length == 16384 for o in observations])
    errors = model.log_errors_of([Fold(~out, out)])[out]
    rest = [o for o, left in zip(observations, out, strict=True) if not left]
    refit = nested_model(rest, PRIORS, "ascend", FREE)
    truly = refit.errors_at(refit.log_values, [o for o, left in zip(observations, out, strict=True) if left])
    np.testing.assert_allclose(errors, truly, atol=0.02)


def test_untaught_runs_are_judged_and_teach_nothing(observations: list[Observation], model: NestedModel) -> None:
    odd = replace(
        observations[0],
        record=replace(observations[0].record, measured=replace(observations[0].record.measured, step_time_s=1.0)),
    )
    found = nested_model(observations, PRIORS, "ascend", FREE, [odd])
    np.testing.assert_allclose(found.log_values, model.log_values, rtol=1e-9)
    (error,) = found.log_errors_of(grouped_folds([*[0] * len(observations), 1]))[-1:]
    measured_s = observations[0].record.measured.step_time_s
    assert measured_s is not None
    assert error == pytest.approx(
        model.log_errors[0] + np.log(measured_s), abs=2e-3
    )  # the last step of the fit was shorter than a per cent


def test_a_run_that_no_fold_judges_has_no_error(model: NestedModel) -> None:
    assert np.isnan(model.log_errors_of([])).all()


def test_every_split_and_mechanism_of_a_family_is_left_out(model: NestedModel) -> None:
    found = left_out_errors(model)
    assert set(found.splits) == set(SPLITS)
    assert len(found.ids) == len(model.observations)
    assert not np.isnan(found.splits["architecture"]).any()
    assert np.isnan(found.splits["rolling origin"]).all()  # six runs of one day have nothing before them
    # Half of the runs have no pipeline, and half have one; all are in BF16, so that none is left to teach without it.
    assert {name for name in found.mechanisms if name.startswith(("schedule", "precision"))} == {"schedule 1f1b", "schedule none"}
    assert np.isnan(found.mechanisms["schedule none"]).sum() == 3
