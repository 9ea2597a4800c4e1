"""Training tasks of a step: update, log-probabilities, reference; priced by the training cost model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate, peaks
from cost_models.step.priced_groups import memory_batch
from documents.late_methods import dataclass

FORWARD_PART = 1.0 / 3.0  # share of the forward in a pass without recompute: the backward has twice its matmuls
ONCE = ("optimizer", "dp_comm", "step_overhead", "weight_gather")  # parts of an update that a forward-only pass lacks


class Batching(StrEnum):
    """Contents of a micro batch of ``micro_batch_size``."""

    PACKED = "packed"  # as many samples as fill that many sequences of the pack length
    SAMPLES = "samples"  # that many samples, each as long as it is
    PADDED = "padded"  # that many samples, all as long as the longest


@dataclass(frozen=True)
class TrainingTimes:
    """Times and memory of one step's answers on one training layout. [s], [B]

    ``update_s`` covers all ``num_updates`` optimizer steps. ``forward_s`` is one pass over all answers without gradients (the old
    log-probabilities, or the reference). ``packed_length`` is the length of the packed sequences. Weights, gradients and
    states of the optimizer are those of the fullest rank at its peak.
    """

    update_s: float
    forward_s: float
    num_updates: int
    packed_length: int
    packed_sequences: int
    peak_memory_bytes: float
    allocated_after_step_bytes: float
    fits: bool
    weights_bytes: float = 0.0
    gradients_bytes: float = 0.0
    optimizer_bytes: float = 0.0


@dataclass(frozen=True)
class PackedBatch:
    """Prompts with their answers, as sequences of one length, for one optimizer step.

    ``peak_length``: the longest sequence, which memory has to hold.
    """

    length: int
    count: int
    mean_squared_length_fraction: float
    peak_length: int


def packed(
    sequence_lengths: NDArray[np.int64],
    longest: int,
    replicas: int,
    multiple: int,
    num_updates: int,
    batching: Batching = Batching.PACKED,
    samples: int = 1,
) -> PackedBatch:
    """Pack the sequences of one of ``num_updates`` equal mini-batches, or leave each by itself.

    A replica gets at least one pack, so packs are shorter if a mini-batch has too few tokens to fill one each. The longest sample
    limits every split of a mini-batch over replicas: the busiest replica sets the pace.

    Parameters
    ----------
    sequence_lengths
        Prompt and answer tokens of every sample of the step.
    longest
        Tokens that a packed sequence can hold, and of the longest sample otherwise.
    replicas
        Data-parallel replicas times micro batch size.
    multiple
        Pack lengths are a multiple of this (context and tensor parallel ranks share them).
    samples
        Of a micro batch, unless they are packed. The fullest of the step has to fit, and one with the longest sample.
    """
    tokens = float(sequence_lengths.sum()) / num_updates
    each = sequence_lengths[: sequence_lengths.size // num_updates * num_updates].reshape(num_updates, -1)
    tokens = max(tokens, replicas * float(np.maximum(each.max(axis=1), tokens / replicas).mean()))
    squares = float((sequence_lengths.astype(np.float64) ** 2).sum()) / num_updates
    if batching is not Batching.PACKED:
        count = math.ceil(sequence_lengths.size / num_updates / replicas) * replicas
        peak = math.ceil(longest / multiple) * multiple
        if batching is Batching.PADDED:
            return PackedBatch(peak, count, 1.0, peak)
        mean = math.ceil(tokens / count / multiple) * multiple
        whole = sequence_lengths[: sequence_lengths.size // samples * samples].reshape(-1, samples)
        fullest = max(longest / samples, float(whole.mean(axis=1).max(initial=0.0)), float(mean))
        return PackedBatch(mean, count, squares / count / mean**2, math.ceil(fullest / multiple) * multiple)
    length = min(float(longest), max(tokens / replicas, float(sequence_lengths.mean())))
    length = max(multiple, math.ceil(length / multiple) * multiple)
    count = max(replicas, math.ceil(tokens / length / replicas) * replicas)
    return PackedBatch(int(length), int(count), min(1.0, max(squares / count / length**2, 1e-6)), int(length))


def training_times(
    workload: Workload,
    strategy: ParallelStrategy,
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
    batching: Batching = Batching.PACKED,
) -> TrainingTimes:
    """Time of update and forward-only passes for one step's answers, under one training layout.

    Parameters
    ----------
    workload
        Has the devices of the training pool; the batch of its ``training`` is replaced.
    strategy
        ``dp`` fills the pool.
    sequence_lengths
        Prompt and answer tokens of every sample.
    pack_length
        Tokens of the longest packed sequence.
    """
    return all_training_times(
        workload, [strategy], constants, sequence_lengths, pack_length=pack_length, num_updates=num_updates, batching=batching
    )[0]


def all_training_times(
    workload: Workload,
    strategies: Sequence[ParallelStrategy],
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
    batching: Batching = Batching.PACKED,
) -> list[TrainingTimes]:
    """Times for several training layouts of one pool, in their order; arguments as in ``training_times``.

    Layouts with the same packs are priced together.
    """
    found: dict[int, TrainingTimes] = {}
    for pack, members in _packs(strategies, sequence_lengths, pack_length, num_updates, batching).items():
        chosen = [strategies[index] for index in members]
        found |= zip(members, _times_of_pack(workload, chosen, constants, pack, num_updates), strict=True)
    return [found[index] for index in range(len(strategies))]


class TrainingPeaks(NamedTuple):
    """Memory of the fullest rank in bytes, ``[n]``, and whether it fits."""

    peak_bytes: NDArray[np.float64]
    fits: NDArray[np.bool_]


def training_peaks(
    workload: Workload,
    strategies: Sequence[ParallelStrategy],
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
    batching: Batching = Batching.PACKED,
) -> TrainingPeaks:
    """``TrainingTimes.peak_memory_bytes`` and ``fits`` alone, a fraction of the work; arguments as in ``all_training_times``."""
    found = TrainingPeaks(np.empty(len(strategies)), np.empty(len(strategies), dtype=np.bool_))
    for pack, members in _packs(strategies, sequence_lengths, pack_length, num_updates, batching).items():
        job, rows = _with_pack(workload, pack, pack.peak_length), StrategyBatch.of([strategies[index] for index in members])
        found.peak_bytes[members] = peaks(memory_batch(job, rows, constants)).peak_bytes
        found.fits[members] = found.peak_bytes[members] <= fit_rule(job, constants).fit_limit_bytes
    return found


def _packs(
    strategies: Sequence[ParallelStrategy],
    sequence_lengths: NDArray[np.int64],
    pack_length: int,
    num_updates: int,
    batching: Batching,
) -> dict[PackedBatch, list[int]]:
    """The layouts that share a batch, as indices."""
    alike: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for index, strategy in enumerate(strategies):
        samples = 1 if batching is Batching.PACKED else strategy.micro_batch_size
        alike[strategy.dp * strategy.micro_batch_size, max(2 * strategy.cp * strategy.tp, 2), samples].append(index)
    packs: dict[PackedBatch, list[int]] = defaultdict(list)
    for (replicas, multiple, samples), members in alike.items():
        packs[packed(sequence_lengths, pack_length, replicas, multiple, num_updates, batching, samples)] += members
    return packs


def _with_pack(workload: Workload, pack: PackedBatch, length: int) -> Workload:
    training = replace(
        workload.training,
        seq_length=length,
        global_batch_size=pack.count,
        mean_squared_length_fraction=pack.mean_squared_length_fraction,
    )
    return replace(workload, training=training)


def _times_of_pack(
    workload: Workload, strategies: Sequence[ParallelStrategy], constants: Constants, pack: PackedBatch, num_updates: int
) -> list[TrainingTimes]:
    """Price layouts with the same batch: each as given, and without recompute for its passes without gradients."""
    rows = StrategyBatch.of([*strategies, *map(_without_recompute, strategies)])
    found = estimate(_with_pack(workload, pack, pack.length), rows, constants, breakdown=True)
    assert found.breakdown is not None
    peak_bytes, fits = found.peak_memory_bytes, found.fits
    if pack.peak_length > pack.length:
        job = _with_pack(workload, pack, pack.peak_length)
        peak_bytes = peaks(memory_batch(job, StrategyBatch.of(list(strategies)), constants)).peak_bytes
        fits = peak_bytes <= fit_rule(job, constants).fit_limit_bytes
    once = np.sum([found.breakdown.time_s[name] for name in ONCE if name in found.breakdown.time_s], axis=0)
    forward_s = np.maximum(found.step_time_s - once, 0.0) * FORWARD_PART
    count, held = len(strategies), found.breakdown.memory_bytes
    optimizer = held["optimizer_master_weights"] + held["optimizer_moments"]
    return [
        TrainingTimes(
            update_s=float(found.step_time_s[row]) * num_updates,
            forward_s=float(forward_s[count + row]) * num_updates,
            num_updates=num_updates,
            packed_length=pack.length,
            packed_sequences=pack.count * num_updates,
            peak_memory_bytes=float(peak_bytes[row]),
            allocated_after_step_bytes=float(found.allocated_after_step_bytes[row]),
            fits=bool(fits[row]),
            weights_bytes=float(held["weights"][row]),
            gradients_bytes=float(held["gradients"][row]),
            optimizer_bytes=float(optimizer[row]),
        )
        for row in range(count)
    ]


def _without_recompute(strategy: ParallelStrategy) -> ParallelStrategy:
    return replace(
        strategy,
        recompute=Recompute.NONE,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_layers_per_stage=None,
        recompute_modules=type(strategy.recompute_modules)(0),
        tensor_plan=None,
    )
