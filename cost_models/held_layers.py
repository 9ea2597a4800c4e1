"""Layers whose activations a pipeline rank holds at its peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.in_flight import compositions_in_flight
from cost_models.layer_keys import Floats
from cost_models.stages import Stages
from cost_models.strategy import IntColumn, RecomputeMethod, StrategyBatch


@dataclass(frozen=True)
class KeptLayers:
    """What forwards leave for their backwards, ``[stage, n]``: layers kept whole, and checkpoints of the others."""

    dense: Floats
    moe: Floats
    inputs: Floats

    def take(self, index: IntColumn) -> KeptLayers:
        """The chosen columns."""
        return KeptLayers(self.dense[:, index], self.moe[:, index], self.inputs[:, index])

    def where(self, chosen: NDArray[np.bool_], other: KeptLayers) -> KeptLayers:
        """These where ``chosen``, ``[stage, n]``, the others elsewhere."""
        columns = ((self.dense, other.dense), (self.moe, other.moe), (self.inputs, other.inputs))
        return KeptLayers(*(np.where(chosen, mine, theirs) for mine, theirs in columns))


def kept_layers(stages: Stages, batch: StrategyBatch) -> list[KeptLayers]:
    """What one micro batch keeps on each chunk, ``[chunk]``; an MTP module is one more layer beside the head."""
    zero = np.zeros((stages.num_kinds, len(batch)))
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    kept = []
    for chunk in range(stages.num_chunks):
        dense_again, moe_again = stages.recomputed(chunk, batch)
        recomputed = dense_again + moe_again
        dense, moe, mtp = (column[:, chunk, None] for column in (stages.dense, stages.moe, stages.mtp_layers * stages.has_head))
        dense, moe = (dense, moe + mtp) if stages.last_layer_is_moe else (dense + mtp, moe)
        inputs = np.where(uniform, np.ceil(recomputed / group), recomputed)
        kept.append(KeptLayers(zero + dense - dense_again, zero + moe - moe_again, inputs))
    return kept


def layers_in_flight(stages: Stages, batch: StrategyBatch, num_microbatches: Floats) -> list[KeptLayers]:
    """What every kind of rank holds at the moments that can be its peak, for strategies of one group.

    Where the chunks of a rank keep alike, that is one moment; else a later one may be heavier with no more chunks. Moments
    of which one holds no less of anything are not told apart.
    """
    tables = [np.stack([one.dense, one.moe, one.inputs]) for one in kept_layers(stages, batch)]
    differ = any((table != tables[0]).any() for table in tables)
    moments: list[Floats] = []
    for counts in compositions_in_flight(stages, batch, num_microbatches, all_turns=differ):
        held = np.zeros_like(tables[0])
        for count, table in zip(counts, tables, strict=True):
            held = held + count * table
        for number, other in enumerate(moments):
            more = (held >= other).all(axis=0)
            if (more | (held <= other).all(axis=0)).all():
                moments[number] = np.where(more, held, other)
                break
        else:
            moments.append(held)
    return [KeptLayers(*held) for held in moments]


def expanded_layers(stages: Stages, batch: StrategyBatch) -> tuple[Floats, Floats]:
    """Dense and MoE layers that a full recompute expands at once on each kind of rank, ``[stage, n]`` each.

    One layer, or a whole group under the uniform method.
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    dense, moe = zero, zero
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    for chunk in range(stages.num_chunks):
        dense_again, moe_again = stages.recomputed(chunk, batch)
        at_once = np.where(uniform, np.minimum(group, dense_again + moe_again), 1.0)
        dense = np.maximum(dense, np.where(dense_again > 0, at_once, 0.0))
        moe = np.maximum(moe, np.where(moe_again > 0, at_once, 0.0))
    return dense, moe
