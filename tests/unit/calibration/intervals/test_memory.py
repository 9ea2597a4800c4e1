"""How far true peaks lie from predicted ones, by hand."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from app.calibrations.constants import paired_error_of
from app.jobs.job import parse_job
from calibration.files.calibrations import calibration_text, parse_calibration, shipped_calibration
from calibration.intervals.memory import (
    MemoryErrors,
    MemoryEvidence,
    family_priors,
    left_out_memory_bands,
    memory_bands,
    memory_coverage,
    memory_evidence,
    memory_kind,
    memory_mechanisms,
    memory_step,
)
from calibration.intervals.memory_errors import memory_errors
from calibration.intervals.plan_differences import CLOSE_LOG, PairedError
from calibration.intervals.step_time import Coverage, ErrorBand
from calibration.intervals.widening import Step
from calibration.procedure.calibrate import calibrate_site
from calibration.records.training import Measured, RunRecord
from calibration.splits.mechanisms import kept_mechanisms
from calibration.validation.predictions import predict, predicted_peak_bytes
from cost_models.constants import PeakSpread
from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.workload import Software, Workload

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


def test_a_peak_is_judged_by_the_bands_of_the_other_architectures(read: Read) -> None:
    # Forty peaks of four shapes 1 % off either way, and ten of a fifth, all 30 % too large.
    shapes = [read({**PEAK, "model.num_layers": layers, "strategy.layer_layout": None}) for layers in (32, 36, 40, 44, 48)]
    records = (*shapes[:4] * 10, *shapes[4:] * 10)
    bands = left_out_memory_bands(MemoryErrors(records, (*(0.01, 0.01, -0.01, -0.01) * 10, *[0.3] * 10)))
    assert all(band.low == pytest.approx(-0.3 * (5 / 4) ** 0.5) for band in bands[:40])
    assert all(band.low == pytest.approx(-0.01 * (5 / 4) ** 0.5) for band in bands[40:])
    lone = left_out_memory_bands(MemoryErrors((shapes[0],), (0.3,)))
    assert [(band.low, band.high) for band in lone] == [(0.0, 0.0)]


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


def test_kept_bytes_that_no_peak_has_are_said_and_widen(read: Read) -> None:
    workload = read().workload
    training = workload.training
    seen, steps = ("precision bf16",), (Step("mechanism", 2.0, 4, 40),)

    def found(job: Workload, mechanisms: tuple[str, ...] = seen) -> MemoryEvidence:
        return memory_evidence(job, BANDS, COVERAGE, mechanisms, steps)

    eight_bits = replace(workload, training=replace(training, precision="fp8", fp8_recipe="blockwise"))
    assert found(workload) == memory_evidence(workload, BANDS, COVERAGE)
    assert found(eight_bits).spread == PeakSpread(-0.2, 0.08)
    assert found(eight_bits).extrapolated == ("no measured peak with precision fp8, recipe blockwise of fp8",)
    assert found(eight_bits, ()) == memory_evidence(eight_bits, BANDS, COVERAGE)  # what the peaks have is not known
    # An unseen stack costs 1.5 times: (1.5^2 + 2^2 - 1)^(1/2) = 2.2913
    elsewhere = replace(eight_bits, software=Software("mindformers"))
    assert found(elsewhere).spread.high == pytest.approx(0.04 * 2.2913, rel=1e-4)
    for changed, said in (
        (replace(training, optimizer=Optimizer("sgd")), "optimizer sgd"),
        (replace(training, precision="fp32"), "precision fp32"),
    ):
        assert found(replace(workload, training=changed)).extrapolated == (f"no measured peak with {said}",)


def test_sparse_and_linear_attention_and_adapters_keep_bytes_of_their_own() -> None:
    job = {
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 512},
        "training": {"seq_length": 4096, "global_batch_size": 512},
    }

    def kept(model: str, **training: object) -> frozenset[str]:
        return kept_mechanisms(parse_job({**job, "model": model, "training": {**job["training"], **training}}).workload)

    assert kept("llama-3.1-8b") == {"precision bf16"}
    assert kept("deepseek-v3.2") == {"precision bf16", "latent attention", "sparse attention"}
    assert kept("llama-3.1-8b", task="lora", adapter={"rank": 16}) == {"precision bf16", "task lora"}
    assert "linear attention" in kept("qwen3-next-80b-a3b")
    assert "state spaces" in kept("nemotron-h-8b")


def test_the_factor_of_a_mechanism_compares_its_first_runs_with_all_others(read: Read) -> None:
    dense = read(PEAK)
    half, eight = (
        replace(dense, workload=replace(dense.workload, training=replace(dense.workload.training, precision=precision)))
        for precision in ("fp16", "fp8")
    )
    # Mean errors: 0.02 of bf16, 0.03 of fp16, 0.10 of fp8, all of one shape, whose runs count alike.
    errors = MemoryErrors((dense, half, eight), (0.02, -0.03, 0.10))
    # 0.02 / 0.065, 0.03 / 0.06 and 0.10 / 0.025 = 4: of three, the largest
    assert memory_step(errors) == Step("mechanism", pytest.approx(4.0), 3, 3)
    assert memory_mechanisms(errors) == ("precision bf16", "precision fp16", "precision fp8")
    assert memory_step(MemoryErrors((dense,), (0.02,))) == Step("mechanism", 1.5, 0, 0)


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
