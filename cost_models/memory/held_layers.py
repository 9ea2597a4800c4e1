"""Layers whose activations a pipeline rank holds at its peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.in_flight import compositions_in_flight
from cost_models.pipeline.stage_times import chunk_counts
from cost_models.pipeline.stages import LayersByKind, Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, RecomputeMethod, StrategyBatch


class KeptLayers(NamedTuple):
    """What micro batches leave on a rank, ``[stage, n]`` or ``[stage, 1]``.

    For their backward: layers kept whole by kind, checkpoints of the others, losses. For weight gradients that run apart: layers
    by kind, recomputed ones too, and heads.
    """

    layers: LayersByKind
    inputs: Floats
    losses: Floats
    waiting: LayersByKind
    waiting_heads: Floats

    @property
    def columns(self) -> list[Floats]:
        """All of it in one list, which ``of_columns`` takes apart again."""
        return [*self.layers, self.inputs, self.losses, *self.waiting, self.waiting_heads]

    @classmethod
    def of_columns(cls, columns: list[Floats]) -> KeptLayers:
        """The inverse of ``columns``.

        Parameters
        ----------
        columns : list of Floats, ``[stage, n]`` or ``[stage, 1]``
            As many for waiting layers as for layers.

        Returns
        -------
        KeptLayers
        """
        kinds = (len(columns) - 3) // 2
        layers, (inputs, losses), waiting = columns[:kinds], columns[kinds : kinds + 2], columns[kinds + 2 : -1]
        return cls(tuple(layers), inputs, losses, tuple(waiting), columns[-1])

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
        return self.of_columns([column if column.shape[1] == 1 else column.take(index, axis=1) for column in self.columns])

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
        pairs = zip(self.columns, other.columns, strict=True)
        return self.of_columns([np.where(chosen, mine, theirs) for mine, theirs in pairs])


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
        recomputed = sum(counts.again, zero)
        inputs = np.where(uniform, np.ceil(recomputed / group), recomputed)
        idle = sum(counts.layers) + counts.mtps * stages.mtp_layers + counts.embeddings + counts.heads == 0
        inputs = inputs + idle * (1.0 + counts.relays[1])  # which a stage of nothing holds until its backward
        layers = stages.with_mtp(counts.layers, counts.mtps)
        whole = tuple(number - again for number, again in zip(layers, counts.again, strict=True))
        kept.append(KeptLayers(whole, inputs, zero + counts.heads, (zero,) * len(whole), zero))
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
        waiting = tuple(zero + number for number in stages.with_mtp(counts.layers, counts.mtps))
        kept.append(KeptLayers((zero,) * len(waiting), zero, zero, waiting, zero + counts.heads))
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
    after = waiting_layers(stages, batch) if stages.schedule.splits_backward else []
    tables, waiting = ([np.stack(one.columns) for one in part] for part in (before, after))
    losses = len(stages.layer_kinds) + 1  # their column, behind the layers and the inputs
    differ = any((table != tables[0]).any() for table in tables)
    moments: list[Floats] = []
    for composition in compositions_in_flight(stages, batch, num_microbatches, all_turns=differ):
        held = np.zeros_like(tables[0])
        weights = composition.weights if waiting else ()
        for count, table in zip((*composition.forwards, *weights), (*tables, *waiting), strict=True):
            if count.any():
                held = held + count * table
        held[losses] = composition.losses
        for number, other in enumerate(moments):
            more = (held >= other).all(axis=0)
            if (more | (held <= other).all(axis=0)).all():
                moments[number] = np.where(more, held, other)
                break
        else:
            moments.append(held)
    # What nobody holds stays one column.
    return [KeptLayers.of_columns([column if column.any() else column[:, :1] for column in held]) for held in moments]


def expanded_layers(stages: Stages, batch: StrategyBatch) -> LayersByKind:
    """Layers of each kind that a full recompute expands at once on each kind of rank, ``[stage, n]`` each.

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
    expanded = [zero] * len(stages.layer_kinds)
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    for counts in chunk_counts(stages, batch):
        at_once = np.where(uniform, np.minimum(group, sum(counts.again, zero)), 1.0)
        for kind, again in enumerate(counts.again):
            expanded[kind] = np.maximum(expanded[kind], np.where(again > 0, at_once, 0.0))
    return tuple(expanded)
