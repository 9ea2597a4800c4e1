"""Layers whose activations a pipeline rank holds at its peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.in_flight import compositions_in_flight
from cost_models.pipeline.stage_times import LayerCounts
from cost_models.pipeline.stages import LayersByKind, Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, RecomputeMethod, StrategyBatch

MOST_ENTRIES = 1 << 21  # of the table of what is held at some moments: 16 MiB


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
        return self.of_columns([column if column.shape[-1] == 1 else column.take(index, axis=-1) for column in self.columns])

    def at(self, moment: IntColumn) -> KeptLayers:
        """Of ``[moment, stage, n]``, what each stage holds at a moment of its own.

        Parameters
        ----------
        moment : IntColumn, ``[stage, n]``
            Which one.

        Returns
        -------
        KeptLayers, ``[stage, n]``
        """
        columns = (np.broadcast_to(column, (len(column), *moment.shape)) for column in self.columns)
        return self.of_columns([np.take_along_axis(column, moment[None], axis=0)[0] for column in columns])

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


def kept_layers(stages: Stages, batch: StrategyBatch, chunks: list[LayerCounts]) -> list[KeptLayers]:
    """What one micro batch keeps on each chunk for its backward, ``[chunk]``, its loss included.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    chunks : list of LayerCounts, ``[chunk]``
        What each chunk holds.

    Returns
    -------
    list of KeptLayers, ``[chunk]``
        Counts of layers, checkpoints and losses; what waits for weight gradients is zero.
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    kept = []
    for counts in chunks:
        recomputed = sum(counts.again, zero)
        inputs = np.where(uniform, np.ceil(recomputed / group), recomputed)
        idle = sum(counts.layers) + counts.mtps * stages.mtp_layers + counts.embeddings + counts.heads == 0
        inputs = inputs + idle * (1.0 + counts.relays[1])  # which a stage of nothing holds until its backward
        layers = stages.with_mtp(counts.layers, counts.mtps)
        whole = tuple(number - again for number, again in zip(layers, counts.again, strict=True))
        kept.append(KeptLayers(whole, inputs, zero + counts.heads, (zero,) * len(whole), zero))
    return kept


def waiting_layers(stages: Stages, batch: StrategyBatch, chunks: list[LayerCounts]) -> list[KeptLayers]:
    """What one micro batch keeps on each chunk from its input gradient to its weight gradient, ``[chunk]``.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    chunks : list of LayerCounts, ``[chunk]``
        What each chunk holds.

    Returns
    -------
    list of KeptLayers, ``[chunk]``
        Counts of layers and heads whose weight gradients wait; the rest is zero.
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    kept = []
    for counts in chunks:
        waiting = tuple(zero + number for number in stages.with_mtp(counts.layers, counts.mtps))
        kept.append(KeptLayers((zero,) * len(waiting), zero, zero, waiting, zero + counts.heads))
    return kept


def layers_in_flight(
    stages: Stages, batch: StrategyBatch, num_microbatches: Floats, chunks: list[LayerCounts], width: int
) -> Iterator[KeptLayers]:
    """What every kind of rank holds at the moments that can be its peak, for strategies of one group.

    Where the chunks of a rank keep alike, that is one moment; else a later one may be heavier with no more chunks.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    num_microbatches : Floats, ``[n]``
        Micro batches of a replica in a step.
    chunks : list of LayerCounts, ``[chunk]``
        What each chunk holds.
    width : int
        Columns into which the caller spreads these, which bounds how many moments come at once.

    Yields
    ------
    KeptLayers, ``[moment, stage, n]`` or ``[moment, stage, 1]``
        Some moments; the caller weighs them in bytes.
    """
    before = [one._replace(losses=np.zeros_like(one.losses)) for one in kept_layers(stages, batch, chunks)]
    after = waiting_layers(stages, batch, chunks) if stages.schedule.splits_backward else []
    tables = np.array([one.columns for one in (*before, *after)])  # [chunk, then chunk that waits, column, kind, n]
    losses = len(stages.layer_kinds) + 1  # their column, behind the layers and the inputs
    differ = bool((tables[: len(before)] != tables[0]).any())
    moments = list(compositions_in_flight(stages, batch, num_microbatches, all_turns=differ))
    at_once = max(MOST_ENTRIES // (tables[0].size * -(-width // len(batch))), 1)
    for first in range(0, len(moments), at_once):
        some = moments[first : first + at_once]
        counts = np.zeros((len(some), len(tables), stages.num_kinds, len(batch)))
        for number, composition in enumerate(some):
            for chunk, count in enumerate((*composition.forwards, *(composition.weights if after else ()))):
                counts[number, chunk] = count
        held = np.einsum("mckn,cokn->omkn", counts, tables)
        for number, composition in enumerate(some):
            held[losses, number] = composition.losses
        # What nobody holds stays one column.
        yield KeptLayers.of_columns([column if column.any() else column[..., :1] for column in held])


def expanded_layers(stages: Stages, batch: StrategyBatch, chunks: list[LayerCounts]) -> LayersByKind:
    """Layers of each kind that a full recompute expands at once on each kind of rank, ``[stage, n]`` each.

    One layer, or a whole group under the uniform method.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    chunks : list of LayerCounts, ``[chunk]``
        What each chunk holds.

    Returns
    -------
    tuple of Floats, ``[stage, n]``, layers
    """
    zero = np.zeros((stages.num_kinds, len(batch)))
    expanded = [zero] * len(stages.layer_kinds)
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    for counts in chunks:
        at_once = np.where(uniform, np.minimum(group, sum(counts.again, zero)), 1.0)
        for kind, again in enumerate(counts.again):
            expanded[kind] = np.maximum(expanded[kind], np.where(again > 0, at_once, 0.0))
    return tuple(expanded)
