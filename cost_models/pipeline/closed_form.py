"""Closed form of a pipelined step: the slowest stage sets the pace, and the other stages add the bubble."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.stage_times import PassTimes
from cost_models.pipeline.stages import Stages
from cost_models.pipeline.sums import over_kinds, weighted
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import Schedule
from documents.late_methods import dataclass


@dataclass(frozen=True)
class PipelineTime:
    """Seconds on the critical kind of rank (``critical``, its index), and idle time around them, ``[n]``.

    ``merged_passes`` of its micro batches run merged with another's backward; the others fill and drain the pipeline.
    """

    critical: NDArray[np.int64]
    steady_s: Floats
    bubble_s: Floats
    merged_passes: Floats


def pipeline_time(
    stages: Stages,
    times: PassTimes,
    num_microbatches: Floats,
    group_size: NDArray[np.int64] | None = None,
    slots_s: Floats | None = None,
) -> PipelineTime:
    """Step time T = work of the slowest rank + the bubble share of every other rank, ``ScheduleRules.bubble_share_s``. ``[n]``

    If micro batches come in groups (of ``group_size``, default p), a last group of r < p stalls for (v - 1)(p - r) chunks
    [calculon]. If the chunks of a rank differ, ranks wait for each other in every slot (``cost_models.pipeline.pace``), which
    takes longer than the slowest rank's work. Merged pairs of plain 1F1B wait for the neighbour's pair, m - 2 of them.

    Parameters
    ----------
    times : ``[kind, n]``, seconds
        Of whole ranks.
    num_microbatches : ``[n]``
    group_size : ``[n]``
        Micro batches that the interleaved schedule passes through a chunk before the next.
    slots_s : ``[n]``
        Interleaved schedule: a micro batch in slots that all ranks wait for. Default: the slowest rank's work.

    Notes
    -----
    For equal ranks this matches the simulated orders to rounding, except for DualPipe and DualPipeV (-2.6 % to +2.3 %). For
    unequal
    ranks with backward = 2 x forward, 1F1B is never slower and at most the fill and drain faster.
    """
    rules, passes = stages.schedule.rules, num_microbatches * stages.passes_fraction
    pace = times.pair if stages.merge_pairs else times.whole
    critical = pace.argmax(axis=0)

    def slowest(values: Floats) -> Floats:
        chosen: Floats = np.take_along_axis(np.broadcast_to(values, pace.shape), critical[None, :], axis=0)[0]
        return chosen

    share = rules.bubble_share_s(times, stages) * stages.passes_fraction
    bubble = np.maximum(over_kinds(stages.num_ranks * share) - slowest(share), 0.0)
    if rules.num_streams > 1:
        bubble = bubble * (stages.pp / 2 - 1) / (stages.pp - 1)  # the streams cross half way
    merged = np.zeros_like(num_microbatches)
    if stages.merge_pairs:
        merged = passes - unmerged_chunks(stages, num_microbatches, group_size) / stages.num_chunks
    if rules.in_groups:
        rest = num_microbatches % (stages.pp if group_size is None else group_size)
        missing = np.where((rest > 0) & (rest < stages.pp), stages.pp - rest, 0)
        bubble = bubble + (stages.vpp - 1) * missing * slowest(pace) / stages.vpp
        if slots_s is not None:
            bubble = bubble + passes * np.maximum(slots_s - slowest(pace), 0.0)
    elif stages.merge_pairs and rules.pairs is not None and rules.pairs.wait and stages.pp > 1:
        bubble = bubble + np.maximum(num_microbatches - 2.0, 0.0) * slowest(pace)
    whole = slowest(times.whole)
    return PipelineTime(critical, (passes - merged) * whole + merged * slowest(pace), bubble, merged)


def unmerged_chunks(stages: Stages, num_microbatches: Floats, group_size: NDArray[np.int64] | None = None) -> Floats:
    """Number of forwards, and as many backwards, that run alone on the rank with most pairs: its warm-up and cool-down. ``[n]``

    They are passes of a chunk.

    Parameters
    ----------
    num_microbatches, group_size : ``[n]``
    """
    pairs = stages.schedule.rules.pairs
    assert pairs is not None
    alone = pairs.unmerged(stages, stages.pp if group_size is None else group_size)
    result: Floats = np.minimum(alone, num_microbatches * stages.passes_fraction * stages.num_chunks)
    return result


@dataclass(frozen=True)
class Surroundings:
    """Seconds that a rank's passes add around them: ``[n]``; the exchange beyond the passes, ``[kind, n]``.

    A send occupies its sender for ``send_s`` and delays its receiver by another ``hop_s``. ``host_s`` is for each micro batch.
    ``most_savings_s`` is the largest saving of a merged pair with a chunk's forward, ``[chunk]`` of ``[kind, n]``; empty if no
    passes are merged.
    """

    send_s: Floats
    hop_s: Floats
    host_s: Floats
    gather_s: Floats
    reduce_s: Floats
    most_savings_s: tuple[Floats, ...] = ()


class LeastWork(NamedTuple):
    """Lower bounds on the seconds of ranks, ``[kind, n]``.

    ``busy_s`` is a rank's work in a step. ``forward_s`` and ``backward_s`` are the times of a micro batch on its first chunk.
    ``gather_s`` and ``reduce_s`` are the exchange that passes do not hide.
    """

    busy_s: Floats
    forward_s: Floats
    backward_s: Floats
    gather_s: Floats
    reduce_s: Floats

    def spanned_s(self, schedule: Schedule, before: Callable[[Floats], Floats]) -> Floats:
        """Lower bound on the time until the last rank ends, ``[n]``: earliest start + busy time + shortest tail.

        Rank i cannot start before one forward of the first chunk has passed the ranks before it. It then works on m micro
        batches. If a backward is one task, the first chunk's backward must still pass the ranks before it at the end. If weight
        gradients run separately, one of them can be the rank's last task, and the tail is empty. Without a synchronised
        optimizer (``ScheduleRules.overlaps_steps``) steps follow each other at the pace of the busiest rank. Two streams start
        at once from both ends.

        Parameters
        ----------
        before
            Sum over the ranks before each rank.
        """
        gather, busy, reduce = self.gather_s, self.busy_s, self.reduce_s
        if schedule.rules.num_streams > 1 or schedule.rules.overlaps_steps:
            result: Floats = (gather + busy + reduce).max(axis=0)
            return result
        start = np.maximum(gather, gather[:1] + before(self.forward_s))
        tail = reduce if schedule.rules.splits_backward else np.maximum(reduce, reduce[:1] + before(self.backward_s))
        result = (start + busy + tail).max(axis=0)
        return result


def least_work(
    stages: Stages,
    rank: PassTimes,
    first_chunk: PassTimes,
    num_microbatches: Floats,
    around: Surroundings,
    group_size: NDArray[np.int64] | None = None,
) -> LeastWork:
    """Lower bounds on the work of every kind of rank, for any order of the tasks. ``[kind, n]``

    Every number is at most what the simulation gives the task. A merged pair counts with the largest saving of its forward's
    chunk. Forwards that run alone save nothing and are those that would save least. The first pass of a rank is never a pair,
    because its backward needs an earlier forward; nor is the last.

    Parameters
    ----------
    rank : ``[kind, n]``, seconds
        Whole ranks, with sends and accumulation.
    first_chunk : ``[kind, n]``, seconds
        Each rank's first chunk, without sends.
    num_microbatches, group_size : ``[n]``
    """
    busy = num_microbatches * (rank.whole * stages.passes_fraction + around.host_s)
    if around.most_savings_s:
        passes = num_microbatches * stages.passes_fraction
        alone = unmerged_chunks(stages, num_microbatches, group_size) * np.min(around.most_savings_s, axis=0)
        busy = busy - passes * sum(around.most_savings_s[1:], around.most_savings_s[0]) + alone
    forward = first_chunk.forward + (around.host_s / stages.vpp + around.send_s + around.hop_s)
    backward = first_chunk.backward + (around.hop_s + (1 - stages.has_embedding[:, :1]) * around.send_s)
    return LeastWork(busy, forward, backward, around.gather_s, around.reduce_s)


def pipeline_lower_bound_s(stages: Stages, work: LeastWork) -> Floats:
    """Lower bound on the time of any order of the same tasks, ``[n]``, without the optimizer and the step's fixed cost.

    It is the maximum over the ranks of ``LeastWork.spanned_s``.

    Parameters
    ----------
    work : ``[kind, n]``, seconds
    """
    return work.spanned_s(stages.schedule, lambda seconds: weighted(stages.before_last, seconds))
