"""The fit on runs whose constants are known, because the model itself made their step times."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.fitting.error_scale import ERROR_SCALE
from calibration.fitting.robust_fit import Observation, fit, left_out_log_errors, linearised, next_step, observation_of
from calibration.records.training import RunRecord
from calibration.splits.groups import architecture
from cost_models.constants import Constants, prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

Read = Callable[..., RunRecord]
PRIORS = prior_constants("ascend")
NAMES = ("matmul_fraction", "vector_fraction", "intra_fraction")
PLANTED = PRIORS.with_values({"matmul_fraction": 0.90, "vector_fraction": 0.70, "intra_fraction": 0.70})
WIDE = dict.fromkeys(NAMES, 3.0)  # priors so weak that the runs alone decide


def observations(read: Read, truth: Constants) -> list[Observation]:
    """Nine runs of three shapes, from matmul-bound to communication-bound, that took what ``truth`` says."""
    changes = [
        {"model.hidden_size": hidden, "model.ffn_hidden_size": ffn, "model.kv_channels": hidden // 32, **layout}
        for hidden, ffn in ((2048, 5504), (4096, 11008), (8192, 22016))
        for layout in (
            {"strategy.tp": 8, "strategy.pp": 1, "strategy.dp": 2, "strategy.num_microbatches": 32},
            {"strategy.tp": 1, "strategy.pp": 8, "strategy.dp": 2, "strategy.num_microbatches": 32},
            {"strategy.tp": 2, "strategy.pp": 4, "strategy.dp": 2, "training.seq_length": 1024},
        )
    ]
    found = []
    for change in changes:
        record = read(change)
        step_time_s = float(simulate(record.workload, StrategyBatch.of([record.strategy]), truth).step_time_s[0])
        found.append(observation_of(replace(record, measured=replace(record.measured, step_time_s=step_time_s)), PRIORS))
    assert all(isinstance(o, Observation) for o in found)
    return [o for o in found if isinstance(o, Observation)]


def slower(observation: Observation, factor: float) -> Observation:
    record = observation.record
    assert record.measured.step_time_s is not None
    measured = replace(record.measured, step_time_s=record.measured.step_time_s * factor)
    return replace(observation, record=replace(record, measured=measured))


def test_a_fit_recovers_planted_constants(read: Read) -> None:
    fitted = fit(observations(read, PLANTED), PRIORS, NAMES, prior_spread=WIDE)
    for name in NAMES:
        assert getattr(fitted.constants, name) == pytest.approx(getattr(PLANTED, name), rel=0.01)
    assert np.abs(fitted.log_errors).max() < 0.002
    assert (fitted.spread < fitted.prior_spread / 8).all()


def test_one_odd_run_hardly_pulls_the_rest(read: Read) -> None:
    found = observations(read, PLANTED)
    found[4] = slower(found[4], 3.0)
    fitted = fit(found, PRIORS, NAMES, prior_spread=WIDE)
    others = np.delete(fitted.log_errors, 4)
    assert np.abs(others).max() < ERROR_SCALE
    assert fitted.log_errors[4] == pytest.approx(-np.log(3.0), abs=ERROR_SCALE)


def test_without_runs_the_priors_come_back() -> None:
    fitted = fit([], PRIORS, NAMES)
    assert fitted.constants == PRIORS.with_values({name: pytest.approx(getattr(PRIORS, name)) for name in NAMES})
    assert fitted.spread == pytest.approx(fitted.prior_spread)
    assert fitted.at_bound == ()


def test_a_constant_that_no_run_touches_keeps_its_prior_and_its_spread(read: Read) -> None:
    fitted = fit(observations(read, PLANTED), PRIORS, (*NAMES, "host_moe_sync_s"))  # all runs are dense
    assert fitted.constants.host_moe_sync_s == pytest.approx(PRIORS.host_moe_sync_s)
    assert fitted.spread[-1] == pytest.approx(fitted.prior_spread[-1])


def test_a_constant_that_the_runs_push_out_of_its_range_stops_at_the_bound_and_is_named(read: Read) -> None:
    # Three times slower than the priors: no admissible share of the matmul rate explains it.
    found = [slower(o, 3.0) for o in observations(read, PRIORS)]
    fitted = fit(found, PRIORS, ("matmul_fraction",), prior_spread={"matmul_fraction": 3.0})
    assert fitted.constants.matmul_fraction == pytest.approx(0.5)  # its lower bound
    assert fitted.at_bound == ("matmul_fraction",)


def test_an_unknown_constant_is_an_error(read: Read) -> None:
    with pytest.raises((KeyError, AttributeError), match="warp_speed"):
        fit(observations(read, PRIORS)[:1], PRIORS, ("warp_speed",))


def test_after_a_fit_nothing_wants_to_move(read: Read) -> None:
    found = [slower(o, factor) for o, factor in zip(observations(read, PLANTED), np.linspace(0.95, 1.05, 9), strict=True)]
    fitted = fit(found, PRIORS, NAMES)
    assert np.abs(next_step(linearised(found, PRIORS, NAMES, fitted.log_values))).max() < 0.01


def test_left_out_errors_are_those_of_a_refit_without_the_group(read: Read) -> None:
    noise = (1.04, 0.97, 1.01, 0.95, 1.06, 1.0, 0.98, 1.02, 1.05)
    found = [slower(o, factor) for o, factor in zip(observations(read, PLANTED), noise, strict=True)]
    groups = [architecture(o.record) for o in found]
    fitted = fit(found, PRIORS, NAMES)
    quick = left_out_log_errors(fitted, groups)
    linear = left_out_log_errors(fitted, groups, is_linear=True)
    for group in set(groups):
        chosen = [o for o, other in zip(found, groups, strict=True) if other != group]
        refit = fit(chosen, PRIORS, NAMES).constants
        for i in (i for i, other in enumerate(groups) if other == group):
            assert quick[i] == pytest.approx(found[i].log_error(refit), abs=0.004)
            assert linear[i] == pytest.approx(quick[i], abs=0.004)


def test_runs_of_no_group_always_teach(read: Read) -> None:
    found = [slower(o, 1.02) for o in observations(read, PLANTED)[:4]]
    fitted = fit(found, PRIORS, NAMES)
    assert left_out_log_errors(fitted, [None] * 4) == pytest.approx(fitted.log_errors)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"measured.step_time_s": None}, "step_time_s is missing"),
        ({"suspect": "typo in the table"}, "suspect: typo in the table"),
        ({"is_latest_for_config": False}, "older publication"),
    ],
)
def test_a_run_that_teaches_nothing_says_why(read: Read, changes: dict[str, object], reason: str) -> None:
    found = observation_of(read(changes), PRIORS)
    assert isinstance(found, str)
    assert reason in found
    assert found.endswith(".")


def test_unclear_hardware_counts_half(read: Read) -> None:
    unclear = observation_of(read({"cluster.hardware_basis": "unclear"}), PRIORS)
    named = observation_of(read(), PRIORS)
    assert isinstance(unclear, Observation)
    assert isinstance(named, Observation)
    assert unclear.weight == 0.5 * named.weight


def test_runs_priced_together_err_as_each_alone(read: Read) -> None:
    found = [*observations(read, PLANTED), *observations(read, PLANTED)]
    together = linearised(found, PRIORS, NAMES, np.log([getattr(PRIORS, name) for name in NAMES])).log_errors
    assert together == pytest.approx([o.log_error(PRIORS) for o in found], rel=1e-12)
