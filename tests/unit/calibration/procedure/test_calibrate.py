"""A site's own calibration, on runs that the model made itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.files.calibrations import calibration_text, parse_calibration, shipped_calibration
from calibration.procedure.calibrate import SiteOutcome, calibrate, calibrate_site
from calibration.procedure.free_constants import SITE_LOG_SPREAD, free_constants
from calibration.records.training import RefusedRecord, RunRecord
from cost_models.constants import Constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

Read = Callable[..., RunRecord]
BASE = shipped_calibration("ascend")
HARDWARE, STACK = "atlas-900-a2-podc", "mindspeed-llm"
SITE = BASE.constants.with_values({"matmul_fraction": 0.90, "intra_fraction": 0.60})
LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"strategy.tp": 8, "strategy.pp": 1},
    {"strategy.tp": 1, "strategy.pp": 8},
    {"strategy.tp": 4, "strategy.pp": 2},
    {"training.seq_length": 2048},
)


def runs(read: Read, truth: Constants, layouts: tuple[dict[str, Any], ...] = LAYOUTS) -> list[RunRecord]:
    found = []
    for number, layout in enumerate(layouts):
        record = read({**layout, "id": f"run-{number}"})
        step_time_s = float(simulate(record.workload, StrategyBatch.of([record.strategy]), truth).step_time_s[0])
        found.append(replace(record, measured=replace(record.measured, step_time_s=step_time_s)))
    return found


def site(records: list[RunRecord | RefusedRecord]) -> SiteOutcome:
    return calibrate_site(records, BASE, hardware=HARDWARE, stack=STACK, command="meshplan calibrate runs.jsonl")


@pytest.fixture(scope="module")
def outcome(read: Read) -> SiteOutcome:
    return site([*runs(read, SITE)])


def test_a_handful_of_runs_brings_predictions_closer(outcome: SiteOutcome) -> None:
    assert np.abs(outcome.base_log_errors).mean() > 0.05
    assert np.abs(outcome.fitted.log_errors).mean() < 0.35 * np.abs(outcome.base_log_errors).mean()
    assert np.abs(outcome.left_out).mean() < 0.5 * np.abs(outcome.base_log_errors).mean()
    assert outcome.left_out_by == "run"  # all of one shape


def test_it_starts_from_the_base_and_learns_only_what_the_runs_touch(outcome: SiteOutcome) -> None:
    fitted = {entry.name: entry for entry in outcome.calibration.fitted}
    before = {entry.name: entry for entry in BASE.fitted}
    assert fitted["matmul_fraction"].prior == before["matmul_fraction"].value
    assert fitted["matmul_fraction"].value < before["matmul_fraction"].value
    spread = np.hypot(before["matmul_fraction"].log_spread, SITE_LOG_SPREAD)
    assert fitted["matmul_fraction"].prior_log_spread == pytest.approx(spread, rel=1e-3)
    assert fitted["matmul_fraction"].log_spread < spread
    # Dense runs say nothing about experts, nor MindSpeed-LLM about MindSpore's graphs.
    assert fitted["host_moe_sync_s"].value == before["host_moe_sync_s"].value
    assert fitted["early_graph_factor"] == before["early_graph_factor"]


def test_it_is_for_one_hardware_and_stack_and_counts_its_runs(outcome: SiteOutcome, read: Read) -> None:
    calibration = outcome.calibration
    assert (calibration.hardware, calibration.stack) == (HARDWARE, STACK)
    assert calibration.num_runs == BASE.num_runs + 5
    now, base = ({(c.hardware, c.stack, c.kind): c.num_runs for c in each.coverage} for each in (calibration, BASE))
    assert now[HARDWARE, STACK, "dense"] == base[HARDWARE, STACK, "dense"] + 5
    assert calibration.applies_to(read().workload)
    assert parse_calibration(calibration_text(calibration), "again.json") == calibration


def test_five_runs_do_not_narrow_the_interval(outcome: SiteOutcome) -> None:
    own, base = ({b.kind: b for b in c.bands} for c in (outcome.calibration, BASE))
    assert own["dense"].low <= base["dense"].low
    assert own["dense"].high >= base["dense"].high
    assert own["moe"] == base["moe"]


def test_three_shapes_are_left_out_as_shapes(read: Read) -> None:
    shapes = tuple({"model.num_layers": layers} for layers in (16, 32, 48))
    assert site([*runs(read, SITE, shapes)]).left_out_by == "architecture"


def test_one_run_is_enough_and_its_left_out_error_is_that_of_the_base(read: Read) -> None:
    found = site([*runs(read, SITE, LAYOUTS[:1])])
    assert found.left_out == pytest.approx(found.base_log_errors, abs=0.01)
    assert abs(found.fitted.log_errors[0]) < abs(found.base_log_errors[0])


def test_runs_that_meet_the_base_move_nothing(read: Read) -> None:
    found = site([*runs(read, BASE.constants)])
    for entry in found.calibration.fitted:
        assert entry.value == pytest.approx(getattr(BASE.constants, entry.name), rel=1e-3)


def test_a_site_moves_what_published_runs_leave_at_its_source(read: Read) -> None:
    slow = BASE.constants.with_values({"attention_forward_fraction": 0.3})
    long = ({"training.seq_length": 32_768}, {"training.seq_length": 65_536}, {"training.seq_length": 16_384})
    found = {entry.name: entry for entry in site([*runs(read, slow, long)]).calibration.fitted}
    assert "attention_forward_fraction" not in {entry.name for entry in BASE.fitted}
    assert found["attention_forward_fraction"].value < 0.9 * found["attention_forward_fraction"].prior


def test_records_that_teach_nothing_are_refused_one_by_one(read: Read) -> None:
    (good,) = runs(read, SITE, LAYOUTS[:1])
    elsewhere = read({"id": "other-hardware", "cluster.hardware": "atlas-800t-a2"})
    other = read({"id": "other-stack", "software.framework": "MindFormers"})
    unread = RefusedRecord("unread", 4, "strategy.tp is 3.")
    found = site([elsewhere, good, other, unread, read({"id": "no-time", "measured.step_time_s": None})])
    assert len(found.fitted.observations) == 1
    reasons = dict(found.refused)
    assert reasons["other-hardware"] == "cluster.hardware is atlas-800t-a2; this calibration is for atlas-900-a2-podc."
    assert reasons["other-stack"] == "software.framework is read as mindformers; this calibration is for mindspeed-llm."
    assert reasons["unread"] == "strategy.tp is 3."
    assert "step_time_s is missing" in reasons["no-time"]


def test_no_record_to_learn_from_is_an_error(read: Read) -> None:
    with pytest.raises(ValueError, match=r"no record can teach anything about mindspeed-llm on atlas-900-a2-podc\. The first"):
        site([read({"measured.step_time_s": None})])
    with pytest.raises(ValueError, match="no record has a step time"):
        calibrate([read({"measured.step_time_s": None})], "ascend", "test")


def test_a_stack_brings_its_own_constants() -> None:
    assert set(free_constants("ascend", ["mindformers"])) - set(free_constants("ascend", [])) == {
        "early_graph_factor",
    }
    assert free_constants("ascend", ["mindspeed-llm"]) == free_constants("ascend", [])


def test_errors_that_come_together_are_kept_with_the_constants(outcome: SiteOutcome) -> None:
    fitted, calibration = outcome.fitted, outcome.calibration
    names = [entry.name for entry in calibration.fitted]
    places = [names.index(name) for name in fitted.names]
    assert calibration.covariance[np.ix_(places, places)] == pytest.approx(fitted.covariance, rel=2e-3, abs=1e-7)
    assert np.abs(fitted.covariance - np.diag(np.diag(fitted.covariance))).max() > 1e-5  # a handful of runs tells few apart
    other = names.index("early_graph_factor")  # of another stack, which these runs do not touch
    assert np.count_nonzero(calibration.covariance[other]) == 1
