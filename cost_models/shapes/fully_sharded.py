"""How often fully sharded weights are gathered, and what stays gathered: PyTorch's stages of a pipeline, Megatron-FSDP's layers.

``reshard_after_forward`` of PyTorch's FSDP2 is ``zero_stage``: 3 frees the weights behind a forward, 2 keeps them
[torchtitan, docs/fsdp.md]. Without a pipeline both free them behind a backward, and scatter gradients there. In a pipeline
neither does either: weights that a backward gathered stay, whole gradients are added up in the type of the reduction, and both
are given back with the last micro batch [pytorch, stage.py].

Megatron-FSDP's units are layers. It gathers the next of them, and lets gradients wait for their reduction, up to a number of
parameters [megatron-0.19, megatron_fsdp/megatron_fsdp.py, param_and_grad_buffer.py].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.precision import EIGHT_BITS
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload

QUEUED_PARAMETERS = 1e9  # whose gradients may wait for their reduction; half as many are gathered ahead [megatron_fsdp.py]
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


def has_units(workload: Workload) -> bool:
    """Whether fully sharded weights are Megatron-FSDP's (``SoftwareTraits.units_year``)."""
    return workload.software.has_since(workload.software_traits.units_year)


def gathers_units_in_eight_bits(workload: Workload) -> bool:
    """Whether layers of units gather their linear weights in 8 bits, as they keep them.

    Those in MXFP8 too: their forward gathers the copy by rows, and their backward the one by columns [megatron-0.19,
    megatron_fsdp/param_and_grad_buffer.py].
    """
    return has_units(workload) and workload.training.precision in EIGHT_BITS and workload.gathers_eight_bits


def gathers_in_rings(workload: Workload) -> bool:
    """Whether gathers over several nodes are priced with all steps of NCCL's rings.

    So they are for PyTorch's FSDP, which gathers each layer alone. Others send few large buckets, and the constants that hide
    them were fitted to doublings; runs of Megatron-Core's FSDP show no such steps.
    """
    return workload.software_traits.fp32_shards


def reduces_copies_beside(workload: Workload) -> bool:
    """Whether copies of shards are added on a stream of their own, beside gathers and scatters of other layers.

    So it is in PyTorch's FSDP, both versions [pytorch, _fsdp_collectives.py, _runtime_utils.py].
    """
    return workload.software_traits.fp32_shards


def layers_ahead(
    workload: Workload, layer_parameters: NDArray[np.float64], num_layers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How many layers are gathered beside the running one, ``[stage, n]``.

    The next one; in stacks with ``gathers_ahead_year`` as many as have half of ``QUEUED_PARAMETERS``.

    Parameters
    ----------
    layer_parameters, num_layers : ``[stage, n]``
        Parameters of a mean layer on a rank before sharding, and the rank's layers.
    """
    if not _counts_parameters(workload):
        return np.ones_like(layer_parameters)
    ahead: NDArray[np.float64] = np.ceil(QUEUED_PARAMETERS / 2.0 / np.maximum(layer_parameters, 1.0))
    return np.clip(ahead, 0.0, np.maximum(num_layers - 1.0, 0.0))


def layers_queued(
    workload: Workload,
    batch: StrategyBatch,
    layer_parameters: NDArray[np.float64],
    num_layers: NDArray[np.float64],
    before: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """How many layers keep whole gradients beside the running one, under ZeRO-2 with a part of one; ``[stage, n]``.

    A gradient is given back only once more parameters wait than a queue has room for, and another joins them. It has room for
    ``QUEUED_PARAMETERS``. From ``room_for_layers_year`` on, and before ``gathers_ahead_year``, ZeRO-3 has room for two mean
    layers; before the latter for no more. ZeRO-2 has buckets of at least 40 million parameters in place of layers: they fill the
    room and no more, and the last one is counted with the running layer; before ``gathers_ahead_year`` none counts.

    Parameters
    ----------
    layer_parameters, num_layers : ``[stage, n]``
        As for ``layers_ahead``.
    before : ``[stage, n]``
        Parameters whose gradients wait before the first layer's do: those of the head, or none once they are given back.
    """
    software, traits = workload.software, workload.software_traits
    each, frees = np.maximum(layer_parameters, 1.0), batch.zero_stage == 3
    if _counts_parameters(workload):
        two = np.where(frees & software.has_since(traits.room_for_layers_year), 2.0 * each, 0.0)
        # Buckets are padded to rows: two of mean layers are more than twice a mean layer.
        room = (np.maximum(QUEUED_PARAMETERS, two) - before) / each
        waiting = np.where(frees, np.ceil(room), room)
    else:
        waiting = np.where(frees, np.floor((2.0 * each - before) / each) + 1.0, 0.0)
    held: NDArray[np.float64] = np.clip(waiting, 0.0, np.maximum(num_layers - 1.0, 0.0))
    return held


def _counts_parameters(workload: Workload) -> bool:
    return workload.software.has_since(workload.software_traits.gathers_ahead_year)


def _evicts(workload: Workload, batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether a rank has more chunks than its schedule keeps gathered. ``[n]``"""
    limited = workload.software.has_since(workload.software_traits.active_chunks_year)
    return limited & (batch.vpp > ACTIVE_CHUNKS)
