from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.records import recompute_recipe
from calibration.records.training import Measured, RefusedRecord, RunRecord, parse_run_record
from calibration.validation.predictions import ValidationRow, predict, predicted_peak_bytes, summarise, validate
from cost_models.constants import Constants, prior_constants
from cost_models.shapes.strategy import Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate

Read = Callable[..., RunRecord]
Row = Callable[..., dict[str, Any]]
UNSTATED: dict[str, Any] = {"strategy.recompute": None}


def priors(workload: Workload) -> Constants:
    return prior_constants(workload.cluster.profile.family)


def error_row(error: float | None, memory_error: float | None = None, **changes: Any) -> ValidationRow:
    row = ValidationRow(
        id="r",
        category="moe",
        predicted_step_time_s=1.0,
        low_s=None,
        high_s=None,
        measured_step_time_s=1.0,
        error_fraction=error,
        predicted_peak_memory_bytes=None,
        measured_peak_memory_bytes=None,
        memory_error_fraction=memory_error,
        refused=None,
        warnings=(),
    )
    return replace(row, **changes)


def test_a_prediction_is_the_estimate_of_the_record(read: Read) -> None:
    record = read({"measured.peak_memory_bytes": 20e9, "measured.peak_memory_basis": "allocated"})
    found = simulate(record.workload, StrategyBatch.of([record.strategy]), prior_constants("ascend"))
    (row,) = validate([record], priors).rows
    assert row.predicted_step_time_s == found.step_time_s[0]
    assert row.error_fraction == pytest.approx(found.step_time_s[0] / 10.0 - 1.0)
    assert row.predicted_peak_memory_bytes == found.allocated_peak_bytes[0]
    assert row.memory_error_fraction == pytest.approx(found.allocated_peak_bytes[0] / 20e9 - 1.0)
    assert (row.low_s, row.high_s, row.refused) == (None, None, None)


def test_memory_is_predicted_for_the_release_that_it_was_measured_under(read: Read) -> None:
    last_losses = {"strategy.pp": 1, "strategy.dp": 8, "measured.peak_memory_bytes": 20e9, "training.seq_length": 16384}
    stated = {"software.framework": "MindSpeed-LLM", "software.version": "2025-12", **last_losses}
    recent, older = (
        validate([read({**stated, **more})], priors).rows[0] for more in ({}, {"software.memory_version": "2024-08"})
    )
    assert recent.predicted_step_time_s == older.predicted_step_time_s
    assert recent.predicted_peak_memory_bytes is not None
    assert older.predicted_peak_memory_bytes is not None
    assert older.predicted_peak_memory_bytes > recent.predicted_peak_memory_bytes  # a copy of the logits, rotary inputs


def test_memory_is_compared_on_its_own_basis(read: Read) -> None:
    found, _ = predict(read(), prior_constants("ascend"))
    peaks = [
        predicted_peak_bytes(found, Measured(peak_memory_basis=basis))
        for basis in ("allocated_first_iteration", "allocated", "reserved", "device")
    ]
    assert peaks == sorted(peaks)
    assert len(set(peaks)) == 4
    assert predicted_peak_bytes(found, Measured()) == peaks[-1]


def test_rows_keep_the_order_of_the_records_and_refusals_have_no_prediction(read: Read, row: Row) -> None:
    refused = parse_run_record(row({"id": "bad", "strategy.tp": 3}))
    assert isinstance(refused, RefusedRecord)
    report = validate([refused, read(), refused], priors)
    assert [found.id for found in report.rows] == ["bad", "one-run", "bad"]
    assert report.num_refused == 2
    assert report.rows[0].predicted_step_time_s is None
    assert report.rows[0].error_fraction is None
    assert report.rows[0].measured_step_time_s == 10.0
    assert report.rows[0].refused == refused.reason
    assert set(report.summary) == {"all", "dense_multi"}


def test_a_strategy_that_cannot_be_priced_is_refused(read: Read) -> None:
    record = read()
    broken = replace(record, strategy=replace(record.strategy, layer_layout=((8, 8, 8, 7),)))
    (row,) = validate([broken], priors).rows
    assert row.predicted_step_time_s is None
    assert row.refused is not None
    assert "does not place 32 layers" in row.refused


def test_intervals_are_reported_and_their_coverage_counted(read: Read) -> None:
    report = validate([read(), read({"measured.step_time_s": 1e6})], priors, lambda _, step: (0.0, 100.0 + step))
    assert [row.low_s for row in report.rows] == [0.0, 0.0]
    assert report.summary["all"].coverage_fraction == 0.5


def test_errors_are_summarised() -> None:
    rows = [error_row(e) for e in (-0.1, 0.2, -0.3, 0.4)] + [error_row(None, 0.5), error_row(None, -0.1)]
    summary = summarise(rows)
    assert summary.count == 4
    assert summary.median_abs_error_fraction == pytest.approx(0.25)  # of 0.1, 0.2, 0.3, 0.4
    assert summary.mean_abs_error_fraction == pytest.approx(0.25)
    assert summary.p90_abs_error_fraction == pytest.approx(0.37)  # 0.3 + 0.7 x 0.1
    assert summary.bias_fraction == pytest.approx(0.05)  # between -0.1 and 0.2
    assert summary.coverage_fraction is None
    assert (summary.memory_count, summary.memory_median_abs_error_fraction) == (2, pytest.approx(0.3))


def test_a_summary_of_nothing_is_empty() -> None:
    summary = summarise([error_row(None)])
    assert (summary.count, summary.median_abs_error_fraction, summary.memory_mean_abs_error_fraction) == (0, None, None)


@pytest.mark.parametrize(
    ("peaks_over_hbm", "chosen"),  # of none, selective, and full recompute of 1 to 8 layers a stage
    [
        ([1.19, *[0.5] * 9], (Recompute.NONE, 0)),  # within the doubt about the memory model
        ([1.21, *[1.19] * 9], (Recompute.SELECTIVE, 0)),
        ([1.5, 1.4, 1.3, 1.25, *[1.1] * 6], (Recompute.FULL, 3)),
        ([3.0] * 10, (Recompute.FULL, 8)),
    ],
)
def test_silence_about_recompute_is_settled_by_memory(
    read: Read, monkeypatch: pytest.MonkeyPatch, peaks_over_hbm: list[float], chosen: tuple[Recompute, int]
) -> None:
    record = read(UNSTATED)
    real = simulate(record.workload, StrategyBatch.of([record.strategy]), prior_constants("ascend"))
    peaks = np.array(peaks_over_hbm) * record.workload.cluster.profile.hbm_bytes
    answers = iter([replace(real, peak_memory_bytes=peaks[:1]), replace(real, peak_memory_bytes=peaks[1:])])
    monkeypatch.setattr(recompute_recipe, "estimate", lambda *_: next(answers))
    strategy, sentence = recompute_recipe.recompute_by_memory(record, prior_constants("ascend"))
    assert (strategy.recompute, strategy.recompute_num_layers) == chosen
    assert (sentence is None) == (chosen[0] is Recompute.NONE)


def test_a_run_that_could_not_fit_is_predicted_with_the_least_recompute_that_does(read: Read) -> None:
    # 16 samples of 4096 tokens on tp 1: far beyond 64 GiB without recompute.
    large = {"strategy.tp": 1, "strategy.dp": 4, "strategy.micro_batch_size": 16, "strategy.num_microbatches": 1}
    record = read({**UNSTATED, **large})
    strategy, sentence = recompute_recipe.recompute_by_memory(record, prior_constants("ascend"))
    assert (strategy.recompute, strategy.recompute_method) == (Recompute.FULL, RecomputeMethod.BLOCK)
    assert sentence is not None
    assert sentence.startswith("strategy.recompute is not stated and none would take ")
    (row,) = validate([record], priors).rows
    assert row.warnings == (sentence,)
    fewer = replace(strategy, recompute_num_layers=strategy.recompute_num_layers - 1)
    peaks = simulate(record.workload, StrategyBatch.of([strategy, fewer]), prior_constants("ascend")).peak_memory_bytes
    assert peaks[0] <= 1.2 * record.workload.cluster.profile.hbm_bytes < peaks[1]


def test_what_a_record_states_is_never_replaced(read: Read) -> None:
    stated = read({"strategy.micro_batch_size": 16, "strategy.num_microbatches": None})
    assert recompute_recipe.recompute_by_memory(stated, prior_constants("ascend")) == (stated.strategy, None)


def test_the_last_rank_is_compared_with_the_last_stage(read: Read) -> None:
    record = read({"measured.peak_memory_last_rank_bytes": 2e10})
    found, _ = predict(record, prior_constants("ascend"), breakdown=True)
    assert found.stage_allocated_peak_bytes is not None
    first, *_, last = found.stage_allocated_peak_bytes[:, 0].tolist()
    assert first > last  # 1F1B holds fewer micro batches at the end
    assert predicted_peak_bytes(found, record.measured) == last
    (row,) = validate([record], priors).rows
    assert row.memory_error_fraction == pytest.approx(last / 2e10 - 1.0)
