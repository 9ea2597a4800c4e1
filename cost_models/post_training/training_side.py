"""The tasks of a step on the training layout: update, log-probabilities, reference; priced by the training cost model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate

FORWARD_PART = 1.0 / 3.0  # of a pass forward and back without recompute: the backward has two matmuls for each forward one
ONCE = ("optimizer", "dp_comm", "step_overhead", "weight_gather")  # of an update, and no part of a pass without gradients


@dataclass(frozen=True)
class TrainingTimes:
    """Of one step's answers on one training layout. [s], [B]

    ``update_s`` covers all ``num_updates`` optimizer steps, ``forward_s`` one pass over all answers without gradients
    (the old log-probabilities, or the reference). ``packed_length`` is that of the packed sequences that were priced.
    """

    update_s: float
    forward_s: float
    num_updates: int
    packed_length: int
    packed_sequences: int
    peak_memory_bytes: float
    allocated_after_step_bytes: float
    fits: bool


@dataclass(frozen=True)
class PackedBatch:
    """Answers with their prompts, packed into sequences of one length, for one optimizer step."""

    length: int
    count: int
    mean_squared_length_fraction: float


def packed(sequence_lengths: NDArray[np.int64], longest: int, replicas: int, multiple: int, num_updates: int) -> PackedBatch:
    """How the sequences of one of ``num_updates`` equal mini-batches fill packs.

    A replica gets at least one pack, so packs are shorter where a mini-batch has too few tokens to fill one each. No split of a
    mini-batch over replicas is better than its longest sample: the busiest replica sets the pace.

    Parameters
    ----------
    sequence_lengths : int64, tokens
        Prompt and answer of every sample of the step.
    longest : int, tokens
        Of a pack: what a micro batch may hold.
    replicas : int
        Data-parallel replicas times micro batch size.
    multiple : int
        Packs are a multiple of this long (context and tensor parallel ranks share them).
    num_updates : int
        Optimizer steps over the batch.

    Returns
    -------
    PackedBatch
    """
    tokens = float(sequence_lengths.sum()) / num_updates
    each = sequence_lengths[: sequence_lengths.size // num_updates * num_updates].reshape(num_updates, -1)
    tokens = max(tokens, replicas * float(np.maximum(each.max(axis=1), tokens / replicas).mean()))
    length = min(float(longest), max(tokens / replicas, float(sequence_lengths.mean())))
    length = max(multiple, math.ceil(length / multiple) * multiple)
    count = max(replicas, math.ceil(tokens / length / replicas) * replicas)
    squares = float((sequence_lengths.astype(np.float64) ** 2).sum()) / num_updates
    return PackedBatch(int(length), int(count), min(1.0, max(squares / count / length**2, 1e-6)))


def training_times(
    workload: Workload,
    strategy: ParallelStrategy,
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
) -> TrainingTimes:
    """Update and forward-only passes of one step's answers.

    Parameters
    ----------
    workload : Workload
        Model, devices of the training pool and software; the batch of its ``training`` is replaced.
    strategy : ParallelStrategy
        The training layout; ``dp`` fills the pool.
    constants : Constants
        Calibrated values for the hardware family.
    sequence_lengths : int64, tokens
        Prompt and answer of every sample.
    pack_length : int, tokens
        Longest packed sequence.
    num_updates : int
        Optimizer steps over the batch.

    Returns
    -------
    TrainingTimes
    """
    return all_training_times(
        workload, [strategy], constants, sequence_lengths, pack_length=pack_length, num_updates=num_updates
    )[0]


def all_training_times(
    workload: Workload,
    strategies: Sequence[ParallelStrategy],
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
) -> list[TrainingTimes]:
    """As ``training_times``, of several layouts of one pool; those that pack alike are priced together.

    Parameters
    ----------
    workload : Workload
        Model, devices of the training pool and software; the batch of its ``training`` is replaced.
    strategies : sequence of ParallelStrategy
        Training layouts.
    constants : Constants
        Calibrated values for the hardware family.
    sequence_lengths : int64, tokens
        Prompt and answer of every sample.
    pack_length : int, tokens
        Longest packed sequence.
    num_updates : int
        Optimizer steps over the batch.

    Returns
    -------
    list of TrainingTimes
        In the order of the layouts.
    """
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, strategy in enumerate(strategies):
        alike[strategy.dp * strategy.micro_batch_size, max(2 * strategy.cp * strategy.tp, 2)].append(index)
    packs: dict[PackedBatch, list[int]] = defaultdict(list)
    for (replicas, multiple), members in alike.items():
        packs[packed(sequence_lengths, pack_length, replicas, multiple, num_updates)] += members
    found: dict[int, TrainingTimes] = {}
    for pack, members in packs.items():
        chosen = [strategies[index] for index in members]
        found |= zip(members, _of_pack(workload, chosen, constants, pack, num_updates), strict=True)
    return [found[index] for index in range(len(strategies))]


def _of_pack(
    workload: Workload, strategies: Sequence[ParallelStrategy], constants: Constants, pack: PackedBatch, num_updates: int
) -> list[TrainingTimes]:
    """Layouts with one batch: each as it is, and without recompute for its passes without gradients."""
    training = replace(
        workload.training,
        seq_length=pack.length,
        global_batch_size=pack.count,
        mean_squared_length_fraction=pack.mean_squared_length_fraction,
    )
    rows = StrategyBatch.of([*strategies, *map(_without_recompute, strategies)])
    found = estimate(replace(workload, training=training), rows, constants, breakdown=True)
    assert found.breakdown is not None
    once = np.sum([found.breakdown.time_s[name] for name in ONCE if name in found.breakdown.time_s], axis=0)
    forward_s = np.maximum(found.step_time_s - once, 0.0) * FORWARD_PART
    count = len(strategies)
    return [
        TrainingTimes(
            update_s=float(found.step_time_s[row]) * num_updates,
            forward_s=float(forward_s[count + row]) * num_updates,
            num_updates=num_updates,
            packed_length=pack.length,
            packed_sequences=pack.count * num_updates,
            peak_memory_bytes=float(found.peak_memory_bytes[row]),
            allocated_after_step_bytes=float(found.allocated_after_step_bytes[row]),
            fits=bool(found.fits[row]),
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
