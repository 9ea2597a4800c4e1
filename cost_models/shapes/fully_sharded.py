"""How often PyTorch's fully sharded stages of a pipeline gather their weights, and what they keep gathered.

``reshard_after_forward`` of PyTorch's FSDP2 is ``zero_stage``: 3 frees the weights behind a forward, 2 keeps them
[torchtitan, docs/fsdp.md]. Without a pipeline both free them behind a backward, and scatter gradients there. In a pipeline
neither does either: weights that a backward gathered stay, whole gradients are added up in the type of the reduction, and both
are given back with the last micro batch [pytorch, stage.py].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload

ACTIVE_CHUNKS = 3  # chunks of a rank whose weights a schedule keeps gathered [pytorch, schedules.py]


def keeps_whole_stages(workload: Workload, batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether the stages of a pipeline keep gathered weights and whole gradients between micro batches. ``[n]``"""
    keeps: NDArray[np.bool_] = workload.software_traits.pipelines_keep_whole_stages & (batch.pp > 1) & (batch.zero_stage >= 2)
    return keeps


def shards_each_layer(workload: Workload, batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether each layer gathers its weights before it runs, and scatters its gradients behind. ``[n]``

    So it is under ZeRO-3, but in stages that keep whole weights.
    """
    sharded: NDArray[np.bool_] = (batch.zero_stage == 3) & ~keeps_whole_stages(workload, batch)
    return sharded


def held_chunks_fraction(workload: Workload, batch: StrategyBatch) -> NDArray[np.float64]:
    """Part of a stage's weights that are gathered at once while it keeps them, ``[n]``: all, or three chunks of the rank's."""
    held: NDArray[np.float64] = np.where(_evicts(workload, batch), ACTIVE_CHUNKS / batch.vpp, 1.0)
    return held


def gathers_a_step(workload: Workload, batch: StrategyBatch) -> NDArray[np.float64]:
    """How often a step gathers the weights of a stage that keeps them. ``[n]``

    Once, if a forward keeps them. If it frees them, m + 1 times for m micro batches: a backward gathers, and the forward behind
    it finds the weights there; one forward of the first ones is in addition. A schedule that keeps three chunks evicts others:
    in a round of p micro batches forward and backward visit v chunks each, and 6 of these 2 v visits find their chunk there.

    Notes
    -----
    ((2 v - 6) m / p + 7) / v for the first rank, 2 / v less for the others; (2 v - 3) / v if m = p, where forward and backward
    never alternate. Counted by execution, like m + 1, which is the least with more than three chunks.
    """
    micro_batches = batch.num_microbatches(workload.training.global_batch_size)
    rounds = micro_batches / batch.pp
    visits = np.where(rounds > 1, (2.0 * batch.vpp - 2 * ACTIVE_CHUNKS) * rounds + 7.0, 2.0 * batch.vpp - ACTIVE_CHUNKS)
    kept = np.where(_evicts(workload, batch), visits / batch.vpp, 1.0)
    gathers: NDArray[np.float64] = np.where(batch.zero_stage == 3, np.maximum(micro_batches + 1.0, kept), kept)
    return gathers


def _evicts(workload: Workload, batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether a rank has more chunks than its schedule keeps gathered. ``[n]``"""
    limited = workload.software.has_since(workload.software_traits.active_chunks_year)
    return limited & (batch.vpp > ACTIVE_CHUNKS)
