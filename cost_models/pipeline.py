"""Closed form of a pipelined step: the slowest stage sets the pace, the others' share is the bubble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.layer_keys import Floats
from cost_models.stages import Stages


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro batch on each kind of rank, ``[kind, n]``.

    ``forward`` and ``backward`` (with recompute) include exposed communication; ``compute_*`` are the exclusive compute
    stream alone, ``first_chunk_*`` its part on the rank's first virtual stage.
    """

    forward: Floats
    backward: Floats
    compute_forward: Floats
    compute_backward: Floats
    first_chunk_forward: Floats
    first_chunk_backward: Floats

    @property
    def whole(self) -> Floats:
        """Forward and backward."""
        return self.forward + self.backward


@dataclass(frozen=True)
class PipelineTime:
    """``[n]``: seconds on the critical kind of rank (``critical``, its index), and idle time around them."""

    critical: NDArray[np.int64]
    steady_s: Floats
    bubble_s: Floats


def pipeline_time(stages: Stages, times: StageTimes, num_microbatches: Floats) -> PipelineTime:
    """T = m max_i t_i + (sum_i t_i - max_i t_i) / v, plus the stalls of a last group of m mod p micro batches.

    For equal stages the second term is the (p - 1)(F + B) / v of 1F1B (v = 1) and of the interleaved schedule
    [narayanan2021, section 2.2]; a remainder r = m mod p > 0 adds (v - 1)(p - r) chunks [calculon].
    """
    whole = times.whole
    critical = whole.argmax(axis=0)
    slowest = np.take_along_axis(whole, critical[None, :], axis=0)[0]
    bubble = ((stages.num_ranks * whole).sum(axis=0) - slowest) / stages.vpp
    if stages.vpp > 1:
        rest = num_microbatches % stages.pp
        missing = np.where(rest > 0, stages.pp - rest, 0)
        bubble = bubble + (stages.vpp - 1) * missing * slowest / stages.vpp
    return PipelineTime(critical, num_microbatches * slowest, bubble)


def pipeline_lower_bound_s(stages: Stages, times: StageTimes, num_microbatches: Floats) -> Floats:
    """What no order of the same tasks can beat: over the ranks, earliest start + busy time + shortest tail. ``[n]``

    Rank i cannot start before one forward of the first chunk has passed the ranks before it, works m micro batches on its
    one compute stream, and after its last backward the first chunk's backward must still pass the ranks before it.
    """
    busy = num_microbatches * (times.compute_forward + times.compute_backward)
    ends = stages.before_last @ (times.first_chunk_forward + times.first_chunk_backward)
    result: Floats = (busy + ends).max(axis=0)
    return result
