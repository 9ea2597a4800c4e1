from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.fitting.robust_fit import Observation, observation_of
from calibration.leave_out.ablation import SWITCHED_OFF, ablations, held, sizes, thinned
from calibration.leave_out.nested import NestedModel, nested_model
from calibration.records.training import RunRecord
from calibration.splits.folds import grouped_folds
from cost_models.constants import CONSTANTS, prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

PRIORS = prior_constants("ascend")
TRUTH = PRIORS.with_values({"dp_exposed_fraction": 0.2})
FOLDS = grouped_folds(list("aabbcc"))
FREE = ("matmul_fraction", "dp_exposed_fraction")


@pytest.fixture(scope="module")
def model(read: Callable[..., RunRecord]) -> NestedModel:
    """Six runs of three publications and shapes, which hide their data-parallel traffic well."""
    found = []
    for document, layers in zip("abc", (16, 32, 48), strict=True):
        for layout in ({"strategy.dp": 8, "strategy.pp": 1}, {"strategy.dp": 2, "strategy.pp": 4}):
            batch = {"training.global_batch_size": 16, "strategy.num_microbatches": 16 // layout["strategy.dp"]}
            features = ["flash_attention", "overlap_grad_reduce"]
            record = read({**layout, **batch, "model.num_layers": layers, "strategy.features": features})
            step_time_s = float(simulate(record.workload, StrategyBatch.of([record.strategy]), TRUTH).step_time_s[0])
            origin = replace(record.origin, publication=document)
            timed = replace(record, measured=replace(record.measured, step_time_s=step_time_s), origin=origin)
            found.append(observation_of(timed, PRIORS))
    observations = [o for o in found if isinstance(o, Observation)]
    assert len(observations) == 6
    return nested_model(observations, PRIORS, "ascend", FREE)


def test_holding_a_number_where_it_is_costs_nothing(model: NestedModel) -> None:
    (index,) = (i for i, number in enumerate(model.numbers) if number.name == "dp_exposed_fraction")
    same = held(model, "dp_exposed_fraction", float(np.exp(model.log_values[index])))
    np.testing.assert_allclose(same.log_errors, model.log_errors, atol=1e-9)
    assert "dp_exposed_fraction" not in [number.name for number in same.numbers]
    assert same.jacobian.shape == (6, len(model.numbers) - 1)


def test_switching_off_what_the_runs_show_costs(model: NestedModel) -> None:
    # Off means exposed in full, five times what the runs wait for.
    off = held(model, "dp_exposed_fraction", SWITCHED_OFF["dp_exposed_fraction"] + 1.0)
    (_, with_everything), (_, without) = (sizes(m.log_errors_of(FOLDS)) for m in (model, off))
    assert without > 1.2 * with_everything


def test_a_constant_that_is_no_tuned_number_can_be_held(model: NestedModel) -> None:
    # Dense runs: whatever casting costs an FP32 weight changes nothing in BF16 on MindSpeed.
    np.testing.assert_allclose(held(model, "cast_bytes", 0.0).log_errors, model.log_errors, atol=1e-9)


def test_every_free_constant_and_mechanism_is_held_in_turn(model: NestedModel) -> None:
    nothing, *found = ablations(model, "ascend", FREE)
    assert (nothing.name, nothing.at_neutral) == ("", None)
    assert nothing.switched_off == pytest.approx(sizes(model.log_errors_of(FOLDS)))
    by_name = {ablation.name: ablation for ablation in found}
    assert set(by_name) == {*FREE, *SWITCHED_OFF}
    assert by_name["matmul_fraction"].switched_off is None
    assert by_name["wave_loss"].at_neutral is None
    assert by_name["permute_passes"].switched_off == pytest.approx(nothing.switched_off, rel=1e-6)


def test_thinning_keeps_the_first_of_every_group() -> None:
    assert thinned(list("aabbca"), 2).tolist() == [True, False, True, False, True, True]


def test_sizes_are_of_predictions_over_measurements() -> None:
    # 10 % too slow, 20 % too fast, and one that no fold judged.
    assert sizes(np.array([np.log(1.1), np.log(0.8), np.nan])) == (pytest.approx(0.15), pytest.approx(0.15))


def test_only_constants_can_be_switched_off() -> None:
    assert set(SWITCHED_OFF) <= {c.name for c in CONSTANTS}
