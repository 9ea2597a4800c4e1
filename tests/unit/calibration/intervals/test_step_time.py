from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration.intervals.step_time import (
    Coverage,
    ErrorBand,
    band_of,
    coverage_of,
    each_end,
    error_bands,
    interval,
    merged_coverage,
    over_band,
)
from calibration.records.training import RunRecord
from calibration.splits.groups import model_kind

Read = Callable[..., RunRecord]
BANDS = (ErrorBand("all", -0.2, 0.2, 40), ErrorBand("dense", -0.1, 0.1, 30))
COVERAGE = (Coverage("atlas-900-a2-podc", "mindspeed-llm", "dense", 30, 64, 8192),)


def test_a_band_holds_the_tenth_at_either_end_outside(read: Read) -> None:
    # 99 errors -0.49, -0.48, ... 0.49 of ln(predicted / measured), and one more beyond: 80 of 100 are within 0.40. The scale of
    # the kind is known to one part in 99, that of a side to one in its 49.
    errors = np.arange(-49, 50) / 100
    everything, dense = error_bands([read()] * 99, errors.tolist(), range(99))
    assert (everything.kind, dense.kind, dense.num_runs) == ("all", "dense", 99)
    expected = pytest.approx(0.40 * (100 / 99 * 50 / 49) ** 0.5)
    assert (-everything.low, everything.high, -dense.low, dense.high) == (expected,) * 4


def test_a_prediction_that_is_too_fast_gets_room_above(read: Read) -> None:
    errors = [-0.3] * 30  # predicted e^-0.3 of what was measured: the truth lies above
    band = error_bands([read()] * 30, errors, range(30))[0]
    assert (band.low, band.high) == (pytest.approx(0.0, abs=1e-8), pytest.approx(0.3 * (31 / 30), rel=1e-6))


def test_a_kind_of_few_groups_is_drawn_towards_all(read: Read, moe: dict[str, object]) -> None:
    # 16 dense shapes 10 % off either way, 4 MoE shapes 40 %: on average (16 x 0.1 + 4 x 0.4) / 20 = 0.16. Five prior shapes
    # leave MoE (0.4^4 x 0.16^5)^(1/9), dense (0.1^16 x 0.16^5)^(1/21).
    records = [read()] * 16 + [read({"model.moe": moe})] * 4
    errors = [0.1 * (-1) ** i for i in range(16)] + [0.4 * (-1) ** i for i in range(4)]
    bands = {b.kind: b for b in error_bands(records, errors, range(20))}
    moe_scale, dense_scale = (0.4**4 * 0.16**5) ** (1 / 9), (0.1**16 * 0.16**5) ** (1 / 21)
    # Four in five of 20 and one more are 16.8, beyond the dense ones: an MoE error over its scale is the end. Ten shapes a side.
    quantile = 0.4 / moe_scale * (11 / 10) ** 0.5
    assert bands["all"].high == pytest.approx(quantile * 0.16 * (21 / 20) ** 0.5)
    assert bands["moe"].high == pytest.approx(quantile * moe_scale * (5 / 4) ** 0.5)
    assert bands["dense"].high == pytest.approx(quantile * dense_scale * (17 / 16) ** 0.5)
    assert bands["dense"].low == pytest.approx(-bands["dense"].high)


def test_many_runs_of_one_group_weigh_as_one(read: Read) -> None:
    few = error_bands([read()] * 20, [0.1] * 19 + [0.9], range(20))[0]
    many = error_bands([read()] * 119, [0.1] * 19 + [0.9] * 100, [*range(19), *["one"] * 100])[0]
    assert (many.low, many.high) == (pytest.approx(few.low), pytest.approx(few.high))


def test_groups_of_one_cluster_weigh_as_much_as_they_say_of_other_clusters(read: Read) -> None:
    # Fifteen groups of one cluster agree, and so do fifteen others: each cluster weighs as one group, beside eight.
    errors = [0.1] * 15 + [-0.1] * 15 + [0.4] * 2 + [0.0] * 6
    records, groups = [read()] * 38, range(38)
    alone = error_bands(records, errors, groups)[0]
    together = error_bands(records, errors, groups, clusters=["one"] * 15 + ["two"] * 15 + [f"own {i}" for i in range(8)])[0]
    assert -together.low == pytest.approx(0.4 * (11 / 10 * 4 / 3) ** 0.5)  # 8.8 of 10 are inside; one cluster and two below
    assert alone.high == pytest.approx(0.1 * (39 / 38 * 16 / 15) ** 0.5)  # 31.2 of 38; fifteen above
    same = error_bands(records, errors, groups, clusters=groups)[0]
    assert (same.low, same.high) == (alone.low, alone.high)


def test_groups_of_clusters_that_differ_inside_count_each(read: Read) -> None:
    errors = [0.1 * (-1) ** i for i in range(40)]
    records, groups = [read()] * 40, range(40)
    alone = error_bands(records, errors, groups)[0]
    together = error_bands(records, errors, groups, clusters=["one"] * 20 + ["two"] * 20)[0]
    assert (together.low, together.high) == (alone.low, alone.high)


@pytest.mark.parametrize("num_sparse", [3, 6, 15])
def test_further_groups_of_every_kind_are_covered(read: Read, moe: dict[str, object], num_sparse: int) -> None:
    """Shapes of one to thirty runs with an error of their own each; MoE errs twice as much and has few shapes."""
    random = np.random.default_rng(3)
    dense, sparse = read(), read({"model.moe": moe})
    inside: dict[str, list[float]] = {"dense": [], "moe": []}
    for _ in range(80):
        records, errors, groups = [], [], []
        for group in range(25 + num_sparse):
            size, spread = int(random.integers(1, 31)), 0.05 if group < 25 else 0.1
            records += [dense if group < 25 else sparse] * size
            errors += (random.normal(0, spread) + random.normal(0, spread, size)).tolist()
            groups += [group] * size
        bands = {b.kind: b for b in error_bands(records, errors, groups)}
        for kind, spread in (("dense", 0.05), ("moe", 0.1)):
            further = -(random.normal(0, spread, 50) + random.normal(0, spread, 50))
            inside[kind].append(float(np.mean((further >= bands[kind].low) & (further <= bands[kind].high))))
    assert 0.78 < np.mean(inside["dense"]) < 0.9
    assert 0.74 < np.mean(inside["moe"]) < 0.9  # three shapes of twice the error are drawn towards twenty-five others


def test_a_wide_model_cut_to_a_few_layers_is_a_kind_of_its_own(read: Read, moe: dict[str, object]) -> None:
    cut = {"model.num_layers": 8, "strategy.layer_layout": None}
    kinds = [model_kind(read({**cut, **more}).workload) for more in ({}, {"model.moe": moe})]
    assert kinds == ["slice", "slice"]
    assert model_kind(read({**cut, "model.hidden_size": 2048, "model.kv_channels": 64}).workload) == "dense"


def test_fewer_than_nine_runs_never_narrow_the_bands_they_start_from(read: Read) -> None:
    # Of n further runs the largest of n errors is exceeded by one in n + 1: with eight, the two ends hold less than 80 %.
    wider = (ErrorBand("all", -0.5, 0.5, 100), ErrorBand("dense", -0.4, 0.6, 80), ErrorBand("moe", -0.7, 0.7, 20))
    eight = {b.kind: b for b in error_bands([read()] * 8, [0.0] * 8, range(8), wider)}
    nine = {b.kind: b for b in error_bands([read()] * 9, [0.0] * 9, range(9), wider)}
    assert (eight["dense"].low, eight["dense"].high) == (-0.4, 0.6)
    assert (nine["dense"].low, nine["dense"].high) == (0.0, 0.0)
    assert nine["moe"] == wider[2]


def test_a_kind_of_fewer_than_nine_groups_keeps_the_band_it_starts_from(read: Read, moe: dict[str, object]) -> None:
    wider = (ErrorBand("all", -0.5, 0.5, 100), ErrorBand("moe", -0.7, 0.7, 20))
    records = [read()] * 20 + [read({"model.moe": moe})]
    bands = {b.kind: b for b in error_bands(records, [0.01, -0.01] * 10 + [0.01], range(21), wider)}
    assert (bands["moe"].low, bands["moe"].high) == (-0.7, 0.7)
    assert bands["all"].high < 0.1


@pytest.mark.parametrize("num_runs", [9, 19, 99])
def test_bands_cover_eighty_per_cent_of_further_errors(read: Read, num_runs: int) -> None:
    random = np.random.default_rng(0)
    records = [read()] * num_runs
    covered = []
    for _ in range(200):
        band = error_bands(records, random.normal(0.02, 0.1, num_runs).tolist(), range(num_runs))[0]
        further = -random.normal(0.02, 0.1, 200)
        covered.append(np.mean((further >= band.low) & (further <= band.high)))
    assert 0.78 < np.mean(covered) < 0.83


def test_runs_of_one_shape_count_as_one(read: Read) -> None:
    # 100 errors of eight shapes: of eight and one more four in five are 7.2, which is 90 of the 100, to 0.445. The scale is known
    # to one part in eight, and that of a side to one in four.
    errors = (np.arange(100) - 49.5) / 100
    alone, together = (error_bands([read()] * 100, errors.tolist(), groups)[0] for groups in (range(100), np.arange(100) % 8))
    assert (-together.low, together.high) == (pytest.approx(0.445 * (9 / 8 * 5 / 4) ** 0.5),) * 2
    assert alone.high == pytest.approx(0.405, abs=0.011)


def test_one_quantile_of_both_sides_is_scaled_to_each(read: Read) -> None:
    # Measured up to 0.5 above the prediction, in fifty steps, and up to 0.1 below it. Of a hundred errors and one more, 80.8 are
    # inside, which is the 81st: the 41st of either side. Root mean squares of the sides are as 5 to 1, and so are the ends. The
    # scale of the kind is known to one part in a hundred, that of a side to one in fifty.
    above = [-0.01 * n for n in range(1, 51)]
    below = [0.002 * n for n in range(1, 51)]
    band = error_bands([read()] * 100, above + below, range(100))[0]
    assert band.high == pytest.approx(0.41 * (101 / 100 * 51 / 50) ** 0.5)
    assert band.low == pytest.approx(-0.082 * (101 / 100 * 51 / 50) ** 0.5)


def test_ends_with_a_quantile_of_their_own_hold_the_same_share_outside() -> None:
    # Of 29 errors and one more a tenth is beyond either end: the 27th, and the 27th from the other end.
    errors = np.concatenate([np.arange(1, 16) / 10, -np.arange(1, 15) / 1000])
    low, high = each_end(errors, np.ones(29))
    assert (low, high) == (pytest.approx(-0.012), pytest.approx(1.3))


def test_a_kind_without_a_run_has_a_scale_known_as_if_from_one_group() -> None:
    assert band_of(BANDS, "dense") == BANDS[1]
    other = band_of(BANDS, "moe")
    assert (other.low, other.high) == (pytest.approx(-0.2 * 2**0.5), pytest.approx(0.2 * 2**0.5))


def test_errors_are_counted_in_ends_of_their_side(read: Read) -> None:
    bands = (ErrorBand("dense", -0.1, 0.4, 30), ErrorBand("all", -1.0, 1.0, 40))
    over = over_band([read()] * 4, np.array([0.05, -0.2, 0.2, np.nan]), bands)  # predicted too slow, too fast, too slow
    assert over[:3].tolist() == pytest.approx([0.5, 0.5, 2.0])
    assert np.isnan(over[3])


def test_a_covered_job_gets_the_band_of_its_kind(read: Read) -> None:
    found = interval(read().workload, 10.0, BANDS, COVERAGE)
    assert found.low_s == pytest.approx(10.0 * np.exp(-0.1))
    assert found.high_s == pytest.approx(10.0 * np.exp(0.1))
    assert (found.num_runs, found.max_devices, found.extrapolated) == (30, 64, ())


def test_what_is_extrapolated_is_said_and_widens(read: Read) -> None:
    workload = read().workload
    large = replace(workload, cluster=replace(workload.cluster, num_devices=256))
    found = interval(large, 1.0, BANDS, COVERAGE)
    assert found.extrapolated == ("no measured run above 64 devices",)
    assert np.log(found.high_s) == pytest.approx(0.1 * 1.1)  # two doublings at 5 % of the band each
    long = interval(replace(workload, training=replace(workload.training, seq_length=16384)), 1.0, BANDS, COVERAGE)
    assert long.extrapolated == ("no measured run above a sequence of 8,192 tokens",)
    other = interval(replace(workload, software=replace(workload.software, stack="mindformers")), 1.0, BANDS, COVERAGE)
    assert other.num_runs == 0
    assert other.max_devices is None
    assert other.extrapolated == ("stack unseen: no measured run with mindformers",)
    assert np.log(other.high_s) == pytest.approx(0.15)


def test_an_untaught_precision_is_said(read: Read) -> None:
    workload = read().workload
    found = interval(replace(workload, training=replace(workload.training, precision="fp8")), 1.0, BANDS, COVERAGE)
    assert found.extrapolated == ("mechanism unseen: no run in fp8 taught the constants",)
    assert np.log(found.high_s) == pytest.approx(0.15)


def test_factors_that_the_job_assumes_are_said(read: Read) -> None:
    workload = read().workload
    slowed = replace(
        workload,
        cluster=replace(workload.cluster, time_factor=1.2),
        software=replace(workload.software, time_factor=0.9),
    )
    found = interval(slowed, 1.0, BANDS, COVERAGE)
    assert found.extrapolated == (
        "cluster.time_factor = 1.2 is assumed, not measured by these runs",
        "software.time_factor = 0.9 is assumed, not measured by these runs",
    )
    assert np.log(found.high_s) == pytest.approx(0.1)  # as wide as without, around a longer time


def test_coverage_counts_by_hardware_stack_and_kind(read: Read, moe: dict[str, object]) -> None:
    records = [read(), read({"training.seq_length": 8192, "strategy.pp": 2, "strategy.dp": 4}), read({"model.moe": moe})]
    dense, sparse = coverage_of(records)
    assert (dense.kind, dense.num_runs, dense.max_devices, dense.max_seq_length) == ("dense", 2, 16, 8192)
    assert (sparse.kind, sparse.num_runs) == ("moe", 1)


def test_merged_coverage_adds_runs_and_keeps_the_largest() -> None:
    more = (
        Coverage("atlas-900-a2-podc", "mindspeed-llm", "dense", 2, 512, 4096),
        Coverage("atlas-900-a2-podc", "mindspeed-llm", "moe", 1, 8, 4096),
    )
    dense, sparse = merged_coverage(COVERAGE, more)
    assert (dense.num_runs, dense.max_devices, dense.max_seq_length) == (32, 512, 8192)
    assert sparse == more[1]
