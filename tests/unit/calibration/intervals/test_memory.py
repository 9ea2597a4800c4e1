"""How far true peaks lie from predicted ones, by hand."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from app.calibrations.constants import paired_error_of
from calibration.files.calibrations import calibration_text, parse_calibration, shipped_calibration
from calibration.intervals.memory import (
    MemoryErrors,
    family_priors,
    memory_bands,
    memory_coverage,
    memory_errors,
    memory_evidence,
    memory_kind,
)
from calibration.intervals.plan_differences import CLOSE_LOG, PairedError
from calibration.intervals.step_time import Coverage, ErrorBand
from calibration.procedure.calibrate import calibrate_site
from calibration.records.training import Measured, RunRecord
from calibration.validation.predictions import predict, predicted_peak_bytes
from cost_models.constants import PeakSpread
from cost_models.shapes.workload import Software

Read = Callable[..., RunRecord]
BANDS = (ErrorBand("all", -0.2, 0.06, 40), ErrorBand("dense", -0.1, 0.04, 30))
COVERAGE = (
    Coverage("atlas-900-a2-podc", "mindspeed-llm", "dense", 30, 8, 8192),
    Coverage("a100-sxm-80gb", "megatron-lm", "dense", 10, 64, 2048),
)
PEAK = {"measured.peak_memory_bytes": 3e10, "measured.peak_memory_basis": "allocated"}


def test_a_peak_is_held_against_the_prediction_of_its_own_kind(read: Read) -> None:
    record = read(PEAK)
    found = memory_errors([record, read(), replace(record, suspect="why")], family_priors)
    assert found.records == (record,)  # not one without a peak, nor one that nobody should judge by
    allocated = float(predict(record, family_priors(record.workload))[0].allocated_peak_bytes[0])
    assert found.log_errors == (pytest.approx(np.log(allocated / 3e10)),)


def test_a_monitor_of_the_device_sees_the_whole_pool(read: Read) -> None:
    record = read(PEAK)
    found, _ = predict(record, family_priors(record.workload))
    assert (
        predicted_peak_bytes(found, Measured(peak_memory_basis="device"))
        == found.pooled_peak_bytes[0]
        > found.peak_memory_bytes[0]
    )


def test_a_recompute_that_memory_decided_says_nothing_of_memory(read: Read) -> None:
    record = read({**PEAK, "training.seq_length": 524288, "strategy.recompute": None})
    _, inferred = predict(record, family_priors(record.workload))
    assert inferred is not None
    assert memory_errors([record], family_priors).records == ()


def test_peaks_tell_dense_and_moe_models_apart(read: Read, moe: dict[str, object]) -> None:
    dense, sparse = read(PEAK), read({**PEAK, "model.moe": moe})
    assert [memory_kind(record.workload) for record in (dense, sparse)] == ["dense", "moe"]
    errors = MemoryErrors((dense,) * 12 + (sparse,) * 3, (0.02, -0.02) * 6 + (0.1, -0.1, 0.1))
    assert {band.kind for band in memory_bands(errors)} == {"all", "dense", "moe"}
    assert [(c.kind, c.num_runs) for c in memory_coverage(errors)] == [("dense", 12), ("moe", 3)]
    assert memory_bands(MemoryErrors((), ()), BANDS) == BANDS


def test_a_covered_job_gets_the_band_of_its_kind(read: Read) -> None:
    found = memory_evidence(read().workload, BANDS, COVERAGE)
    assert (found.spread.low, found.spread.high) == (-0.1, 0.04)
    assert (found.num_runs, found.max_devices, found.extrapolated) == (30, 8, ())


def test_what_no_peak_covers_is_said_and_widens(read: Read, moe: dict[str, object]) -> None:
    sparse = memory_evidence(read({"model.moe": moe}).workload, BANDS, COVERAGE)
    assert sparse.spread.high == pytest.approx(1.5 * 0.06)
    assert (sparse.num_runs, sparse.extrapolated) == (0, ("no measured peak of a moe model with mindspeed-llm",))
    workload = read().workload
    large = memory_evidence(replace(workload, cluster=replace(workload.cluster, num_devices=256)), BANDS, COVERAGE)
    assert large.spread.high == pytest.approx(0.04 * 1.1)  # two doublings beyond 64, at 5 % of the band each
    assert large.extrapolated == ("no measured peak above 64 devices",)
    long = replace(workload, training=replace(workload.training, seq_length=16384))
    assert memory_evidence(long, BANDS, COVERAGE).extrapolated == ("no measured peak above a sequence of 8,192 tokens",)


def test_a_file_of_an_earlier_version_takes_the_peaks_and_the_pairs_that_ship(read: Read) -> None:
    shipped, workload = shipped_calibration("ascend"), read().workload
    old = replace(shipped, memory_bands=(), memory_coverage=(), paired=())
    assert old.paired_error(workload) == shipped.paired_error(workload)
    assert old.memory_evidence(workload) == shipped.memory_evidence(workload)
    assert old.constants_of(workload).peak_spread == shipped.memory_evidence(workload).spread
    assert parse_calibration(calibration_text(shipped), "file") == shipped
    later = ("memory_bands", "memory_coverage", "paired")
    without = {name: value for name, value in json.loads(calibration_text(shipped)).items() if name not in later}
    assert parse_calibration(json.dumps(without), "file") == old


def test_a_site_whose_peaks_lie_further_off_gets_wider_bands(read: Read) -> None:
    base = shipped_calibration("ascend")
    own = [read({**PEAK, "measured.peak_memory_bytes": 1e12}), read()]
    found = calibrate_site(own, base, hardware="atlas-900-a2-podc", stack="mindspeed-llm", command="here").calibration
    before, after = ({band.kind: band for band in each.memory_bands} for each in (base, found))
    assert after["dense"].high > 1.0 > before["dense"].high
    assert after["moe"] == before["moe"]
    assert sum(c.num_runs for c in found.memory_coverage) == sum(c.num_runs for c in base.memory_coverage) + 1


def test_a_calibration_without_measured_pairs_or_peaks_still_answers(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the file nor the shipped one has any, as before the first `make calibration` of a family."""
    bare = replace(shipped_calibration("ascend"), memory_bands=(), memory_coverage=(), paired=())
    monkeypatch.setattr("calibration.files.calibrations.shipped_calibration", lambda family: bare)
    job = replace(read().workload, software=Software("mindspeed-llm"))
    assert bare.paired_error(job) == PairedError("all", CLOSE_LOG, 0, 0)
    assert bare.memory_evidence(job).spread == PeakSpread(0.0, 0.0)
    assert bare.memory_evidence(job).extrapolated
    basis = paired_error_of(job, (bare,)).basis
    assert basis == "no jobs measured under several plans: assumed"
