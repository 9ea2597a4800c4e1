"""Memory by rank against the published baselines, and by kind of peak against the runs that state one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.files.calibrations import family_of, shipped_calibration
from calibration.intervals.memory import (
    MemoryErrors,
    family_priors,
    left_out_memory_bands,
    memory_bands,
    memory_coverage,
    memory_mechanisms,
    memory_step,
)
from calibration.intervals.memory_errors import memory_errors
from calibration.intervals.widening import Step
from calibration.records.training import RefusedRecord, RunRecord, read_run_records
from calibration.validation.predictions import ValidationReport, predict
from cost_models.constants import Constants, PeakSpread
from cost_models.memory.fit import log_error_at
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate

Errors = NDArray[np.float64]
RUNS = Path(__file__).resolve().parents[2] / "calibration/runs"

# Absolute errors [%] over all ranks of all rows, median and mean. After a step only weights, gradients and optimizer
# states stay: arithmetic without a constant.
AFTER_STEP_LIMITS = (0.7, 2.0)
FIRST_PEAK_LIMITS = (0.6, 1.5)
# Median absolute error [%] by basis of the published peak.
PEAK_LIMITS = {
    ("ascend", "allocated_first_iteration"): 1.5,
    ("gpu", "allocated"): 0.5,
    ("gpu", "device"): 10.0,
    ("gpu", "reserved"): 7.0,
}
# Share of them that is under-estimated by more than 5 % [%]: the unsafe side. Device memory holds what nobody counts.
UNDERESTIMATED_LIMITS = {
    ("ascend", "allocated_first_iteration"): 5.0,
    # Two of Megatron's own tests, which route for real with a router that nobody trained, and merged passes at 5.9 % below.
    ("gpu", "allocated"): 9.5,
    ("gpu", "device"): 20.0,
    ("gpu", "reserved"): 5.0,
}
# Share of the runs that took place and are predicted not to fit [%], by hardware family.
# Interleaved parts of a micro batch count their logits together.
REFUTED_LIMITS = {"ascend": 2.5, "gpu": 5.2}
# Runs with a measured peak that are refused at the usual confidence: a mixture that merges the passes of two micro batches, and
# one that took 88 % of its prediction.
REFUSED = {"mbcard-qwen3-30b-a3b-h100-16g-bf16-tp1ep16-gbs1024", "bigscience-1b3-v100-8g-nock-tp1pp4dp2-mbs2"}


def by_rank(per_stage: NDArray[np.float64] | None, num_ranks: int, pp: int) -> NDArray[np.float64]:
    """Ranks are numbered with the pipeline outermost."""
    assert per_stage is not None
    return per_stage[np.arange(num_ranks) * pp // num_ranks, 0]


@pytest.fixture(scope="module")
def rank_errors(records: list[RunRecord | RefusedRecord], constants_for: Callable[[Workload], Constants]) -> dict[str, Errors]:
    after, peaks = [], []
    for record in records:
        if not isinstance(record, RunRecord) or not record.measured.allocated_after_step_by_rank_bytes or record.suspect:
            continue
        found, _ = predict(record.of_memory, constants_for(record.workload), breakdown=True)
        pp = record.strategy.pp
        measured = np.array(record.measured.allocated_after_step_by_rank_bytes)
        after.append(by_rank(found.stage_allocated_after_step_bytes, len(measured), pp) / measured - 1.0)
        measured = np.array(record.measured.peak_memory_by_rank_bytes)
        peaks.append(by_rank(found.stage_allocated_first_iteration_bytes, len(measured), pp) / measured - 1.0)
    empty = [np.empty(0)]
    return {"after": np.concatenate(after or empty), "peaks": np.concatenate(peaks or empty)}


@pytest.mark.parametrize("family", ["ascend"], indirect=True, scope="session")
def test_what_stays_after_a_step_is_met_by_rank(rank_errors: dict[str, Errors]) -> None:
    errors = 100 * np.abs(rank_errors["after"])
    assert len(errors) == 148  # ranks of 24 rows
    median, mean = AFTER_STEP_LIMITS
    assert np.median(errors) <= median
    assert np.mean(errors) <= mean


@pytest.mark.parametrize("family", ["ascend"], indirect=True, scope="session")
def test_first_iteration_peaks_are_met_by_rank(rank_errors: dict[str, Errors]) -> None:
    errors = 100 * np.abs(rank_errors["peaks"])
    median, mean = FIRST_PEAK_LIMITS
    assert np.median(errors) <= median
    assert np.mean(errors) <= mean
    assert 100 * np.mean(rank_errors["peaks"] < -0.05) <= UNDERESTIMATED_LIMITS["ascend", "allocated_first_iteration"]


def test_peaks_are_met_on_their_own_basis(
    family: str, records: list[RunRecord | RefusedRecord], report: ValidationReport
) -> None:
    for (of_family, basis), limit in PEAK_LIMITS.items():
        if of_family != family:
            continue
        errors = [
            row.memory_error_fraction
            for record, row in zip(records, report.rows, strict=True)
            if record.measured.peak_memory_basis == basis and row.memory_error_fraction is not None and not record.suspect
        ]
        assert len(errors) >= 10, basis
        assert 100 * np.median(np.abs(errors)) <= limit, basis
        assert 100 * np.mean(np.array(errors) < -0.05) <= UNDERESTIMATED_LIMITS[of_family, basis], basis


@pytest.fixture(scope="module")
def left_out() -> MemoryErrors:
    families = (read_run_records(RUNS / f"{name}.jsonl") for name in ("ascend", "gpu"))
    return memory_errors([r for records in families for r in records if isinstance(r, RunRecord)], family_priors)


@pytest.mark.parametrize(
    ("level", "least", "most"), [(0.8, 0.8, 0.95), (0.9, 0.88, 0.96), (0.95, 0.92, 0.985), (0.99, 0.96, 1.0)]
)
def test_devices_so_sure_to_hold_a_peak_held_it(left_out: MemoryErrors, level: float, least: float, most: float) -> None:
    bands = left_out_memory_bands(left_out)
    held = [
        -error <= log_error_at(PeakSpread(min(band.low, 0.0), max(band.high, 0.0)), level)
        for band, error in zip(bands, left_out.log_errors, strict=True)
    ]
    groups = [str(group) for group in left_out.groups]
    assert least <= np.mean(held) <= most
    assert least <= np.average(held, weights=[1 / groups.count(group) for group in groups]) <= most


@pytest.mark.parametrize("family", ["ascend", "gpu"], scope="session")
def test_the_shipped_bands_are_those_of_the_shipped_runs(family: str, left_out: MemoryErrors) -> None:
    shipped = shipped_calibration(family)
    assert shipped.memory_coverage == memory_coverage(left_out), "run `make calibration`"
    assert shipped.memory_mechanisms == memory_mechanisms(left_out), "run `make calibration`"
    step = memory_step(left_out)
    assert shipped.memory_steps == (Step(step.kind, pytest.approx(step.factor, rel=1e-3), step.num_groups, step.num_runs),)
    for band, expected in zip(shipped.memory_bands, memory_bands(left_out), strict=True):
        assert (band.kind, band.num_runs) == (expected.kind, expected.num_runs)
        assert (band.low, band.high) == (pytest.approx(expected.low, rel=1e-3), pytest.approx(expected.high, rel=1e-3))


def test_what_ran_with_a_measured_peak_fits_at_the_usual_confidence(left_out: MemoryErrors) -> None:
    refused = []
    for record in left_out.records:
        constants = shipped_calibration(family_of(record.workload.cluster.profile.family)).constants_of(record.workload)
        found, _ = predict(record, constants, price=estimate)
        refused += [record.id] * (not found.fits[0])
    assert set(refused) <= REFUSED


def test_what_ran_is_predicted_to_fit(
    family: str, records: list[RunRecord | RefusedRecord], constants_for: Callable[[Workload], Constants]
) -> None:
    chosen = [record for record in records[:: 1 if family == "ascend" else 3] if isinstance(record, RunRecord)]
    found = [predict(record, constants_for(record.workload))[0] for record in chosen]
    refuted = [r.id for r, f in zip(chosen, found, strict=True) if f.peak_memory_bytes[0] > f.memory_limit_bytes]
    assert 100 * len(refuted) / len(chosen) <= REFUTED_LIMITS[family], refuted
