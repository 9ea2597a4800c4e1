from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.ablation import SWITCHED_OFF, held_log_errors, thinned
from calibration.fitting import Fitted, Observation, fit, left_out_log_errors, observation_of
from calibration.run_records import RunRecord
from cost_models.constants import CONSTANTS, prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

PRIORS = prior_constants("ascend")
TRUTH = PRIORS.with_values({"matmul_fraction": 0.9, "dp_exposed_fraction": 0.9})
GROUPS = list("aabbcc")


@pytest.fixture
def fitted(read: Callable[..., RunRecord]) -> Fitted:
    """Six runs of three groups, slow in matmuls and in data-parallel traffic, and a fit to them."""
    found = []
    for layers in (16, 32, 48):
        for layout in ({"strategy.dp": 8, "strategy.pp": 1}, {"strategy.dp": 2, "strategy.pp": 4}):
            batch = {"training.global_batch_size": 16, "strategy.num_microbatches": 16 // layout["strategy.dp"]}
            features = ["flash_attention", "overlap_grad_reduce"]
            record = read({**layout, **batch, "model.num_layers": layers, "strategy.features": features})
            step_time_s = float(simulate(record.workload, StrategyBatch.of([record.strategy]), TRUTH).step_time_s[0])
            found.append(observation_of(replace(record, measured=replace(record.measured, step_time_s=step_time_s)), PRIORS))
    weak = {"matmul_fraction": 3.0, "dp_exposed_fraction": 3.0}
    observations = [o for o in found if isinstance(o, Observation)]
    assert len(observations) == 6
    return fit(observations, PRIORS, tuple(weak), prior_spread=weak)


def test_holding_a_constant_at_its_fitted_value_costs_nothing(fitted: Fitted) -> None:
    value = fitted.constants.dp_exposed_fraction
    held = held_log_errors(fitted, GROUPS, "dp_exposed_fraction", value)
    assert np.abs(held).max() < 0.002
    assert np.abs(left_out_log_errors(fitted, GROUPS, is_linear=True)).max() < 0.002


def test_switching_off_what_the_runs_need_costs(fitted: Fitted) -> None:
    off = held_log_errors(fitted, GROUPS, "dp_exposed_fraction", SWITCHED_OFF["dp_exposed_fraction"])
    prior = held_log_errors(fitted, GROUPS, "dp_exposed_fraction", PRIORS.dp_exposed_fraction)
    assert np.abs(off).mean() > np.abs(prior).mean() > 0.005


def test_a_constant_that_was_never_free_can_be_held(fitted: Fitted) -> None:
    # Dense runs: whatever experts cost changes nothing.
    assert held_log_errors(fitted, GROUPS, "permute_passes", 0.0) == pytest.approx(
        left_out_log_errors(fitted, GROUPS, is_linear=True)
    )


def test_thinning_keeps_the_first_of_every_group(fitted: Fitted) -> None:
    half, groups = thinned(fitted, GROUPS, 2)
    assert groups == ["a", "b", "c"]
    assert half.observations == fitted.observations[::2]
    assert half.jacobian.shape == (3, 2)


def test_only_constants_can_be_switched_off() -> None:
    assert set(SWITCHED_OFF) <= {c.name for c in CONSTANTS}
