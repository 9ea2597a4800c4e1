"""Micro batches of packed samples, of samples as they are, and of padded ones, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.post_training.training_side import Batching, packed, training_peaks, training_times
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Software, TrainingJob, Workload
from tests.networks import ascend_a2
from tests.workloads import DENSE, constants

LENGTHS = np.array([100, 300, 200, 200, 400, 100, 100, 200])  # 1,600 tokens


def test_samples_stay_apart() -> None:
    # Two updates of four samples; two replicas of one sample each take two micro batches.
    found = packed(LENGTHS, 500, 2, 2, 2, Batching.SAMPLES)
    # 800 tokens over 4 samples; no longest sample has more than the 400 of a replica.
    assert (found.length, found.count) == (200, 4)
    squares = float((LENGTHS.astype(float) ** 2).sum()) / 2
    assert found.mean_squared_length_fraction == pytest.approx(squares / 4 / 200**2)
    assert found.peak_length == 500  # one sample a micro batch: the longest that may come


def test_the_fullest_micro_batch_sets_the_memory() -> None:
    # Pairs hold 400, 400, 500 and 300 tokens; a pair with the longest sample of 800 holds at least that.
    assert packed(LENGTHS, 800, 4, 2, 1, Batching.SAMPLES, 2).peak_length == 400
    assert packed(LENGTHS, 300, 4, 2, 1, Batching.SAMPLES, 2).peak_length == 250


def test_padded_samples_are_as_long_as_the_longest() -> None:
    found = packed(LENGTHS, 500, 2, 8, 1, Batching.PADDED)
    assert (found.length, found.count, found.mean_squared_length_fraction, found.peak_length) == (504, 8, 1.0, 504)


def test_padding_costs_time_and_long_samples_cost_memory() -> None:
    pool = Workload(DENSE, TrainingJob(4096, 1), replace(ascend_a2(), num_devices=8), Software("mindspeed"))
    layout = ParallelStrategy(tp=2, dp=4, sequence_parallel=True)
    lengths = np.repeat(np.array([500, 1500]), 32)
    found = {
        batching: training_times(pool, layout, constants(), lengths, pack_length=4000, batching=batching) for batching in Batching
    }
    # Samples have the tokens of packs, in more micro batches, and padded ones four times as many.
    assert found[Batching.PACKED].update_s < found[Batching.SAMPLES].update_s * 1.2
    assert found[Batching.PADDED].update_s > 3.0 * found[Batching.SAMPLES].update_s
    # One micro batch holds the longest sample in each case.
    peaks = [times.peak_memory_bytes for times in found.values()]
    assert peaks == pytest.approx([peaks[0]] * 3, rel=1e-6)
    for batching, times in found.items():
        alone = training_peaks(pool, [layout], constants(), lengths, pack_length=4000, batching=batching)
        assert float(alone.peak_bytes[0]) == pytest.approx(times.peak_memory_bytes, rel=1e-9)
        assert bool(alone.fits[0]) is times.fits
    more = training_times(
        pool, replace(layout, micro_batch_size=2), constants(), lengths, pack_length=4000, batching=Batching.PADDED
    )
    assert more.peak_memory_bytes > found[Batching.PADDED].peak_memory_bytes
