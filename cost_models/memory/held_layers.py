"""Layers whose activations a pipeline rank holds at its peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.in_flight import compositions_in_flight
from cost_models.pipeline.stage_times import chunk_counts
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, RecomputeMethod, StrategyBatch


class KeptLayers(NamedTuple):
    """What micro batches leave on a rank, ``[stage, n]`` or ``[stage, 1]``.

    For their backward: layers kept whole, checkpoints of the others, losses. For weight gradients that run apart: layers,
    recomputed ones too, and heads.
    """

    dense: Floats
    moe: Floats
    inputs: Floats
    losses: Floats
    waiting_dense: Floats
    waiting_moe: Floats
    waiting_heads: Floats

    def take(self, index: IntColumn) -> KeptLayers:
        """The chosen columns.

        Parameters
        ----------
        index : IntColumn
            Columns to take.

        Returns
        -------
        KeptLayers
        """
        return KeptLayers(*(column if column.shape[1] == 1 else column.take(index, axis=1) for column in self))

    def where(self, chosen: NDArray[np.bool_], other: KeptLayers) -> KeptLayers:
        """These where ``chosen``, ``[stage, n]``, the others elsewhere.

        Parameters
        ----------
        chosen : bool, ``[stage, n]``
            Where to keep these.
        other : KeptLayers
            What stands elsewhere.

        Returns
        -------
        KeptLayers
        """
        return KeptLayers(*(np.where(chosen, mine, theirs) for mine, theirs in zip(self, other, strict=True)))


_LOSSES = KeptLayers._fields.index("losses")


def kept_layers(stages: Stages, batch: StrategyBatch) -> list[KeptLayers]:
    """What one micro batch keeps on each chunk for its backward, ``[chunk]``, its loss included.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.

    Returns
    -------
    list of KeptLayers, ``[chunk]``
        Counts of layers, checkpoints and losses; what waits for weight gradients is zero.
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    kept = []
    for counts in chunk_counts(stages, batch):
        dense, moe = stages.with_mtp(counts.dense, counts.moe, counts.heads)
        recomputed = counts.dense_again + counts.moe_again
        inputs = np.where(uniform, np.ceil(recomputed / group), recomputed)
        whole = dense - counts.dense_again, moe - counts.moe_again
        kept.append(KeptLayers(*whole, inputs, zero + counts.heads, zero, zero, zero))
    return kept


def waiting_layers(stages: Stages, batch: StrategyBatch) -> list[KeptLayers]:
    """What one micro batch keeps on each chunk from its input gradient to its weight gradient, ``[chunk]``.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.

    Returns
    -------
    list of KeptLayers, ``[chunk]``
        Counts of layers and heads whose weight gradients wait; the rest is zero.
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    kept = []
    for counts in chunk_counts(stages, batch):
        dense, moe = stages.with_mtp(counts.dense, counts.moe, counts.heads)
        kept.append(KeptLayers(zero, zero, zero, zero, zero + dense, zero + moe, zero + counts.heads))
    return kept


def layers_in_flight(stages: Stages, batch: StrategyBatch, num_microbatches: Floats) -> list[KeptLayers]:
    """What every kind of rank holds at the moments that can be its peak, for strategies of one group.

    Where the chunks of a rank keep alike, that is one moment; else a later one may be heavier with no more chunks. Moments
    of which one holds no less of anything are not told apart.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    num_microbatches : Floats, ``[n]``
        Micro batches of a replica in a step.

    Returns
    -------
    list of KeptLayers
        One a moment; the caller weighs them in bytes.
    """
    before = [one._replace(losses=np.zeros_like(one.losses)) for one in kept_layers(stages, batch)]
    tables, waiting = ([np.stack(one) for one in part] for part in (before, waiting_layers(stages, batch)))
    differ = any((table != tables[0]).any() for table in tables)
    moments: list[Floats] = []
    for composition in compositions_in_flight(stages, batch, num_microbatches, all_turns=differ):
        held = np.zeros_like(tables[0])
        for count, table in zip((*composition.forwards, *composition.weights), (*tables, *waiting), strict=True):
            if count.any():
                held = held + count * table
        held[_LOSSES] = composition.losses
        for number, other in enumerate(moments):
            more = (held >= other).all(axis=0)
            if (more | (held <= other).all(axis=0)).all():
                moments[number] = np.where(more, held, other)
                break
        else:
            moments.append(held)
    # What nobody holds stays one column.
    return [KeptLayers(*(column if column.any() else column[:, :1] for column in held)) for held in moments]


def expanded_layers(stages: Stages, batch: StrategyBatch) -> tuple[Floats, Floats]:
    """Dense and MoE layers that a full recompute expands at once on each kind of rank, ``[stage, n]`` each.

    One layer, or a whole group under the uniform method.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.

    Returns
    -------
    tuple of Floats, ``[stage, n]``, layers
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    dense, moe = zero, zero
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    for counts in chunk_counts(stages, batch):
        at_once = np.where(uniform, np.minimum(group, counts.dense_again + counts.moe_again), 1.0)
        dense = np.maximum(dense, np.where(counts.dense_again > 0, at_once, 0.0))
        moe = np.maximum(moe, np.where(counts.moe_again > 0, at_once, 0.0))
    return dense, moe
