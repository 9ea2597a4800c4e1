"""Layers whose activations a pipeline rank holds at its memory peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.stage_times import LayerCounts
from cost_models.pipeline.stages import LayersByKind, Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, RecomputeMethod, StrategyBatch
from cost_models.shapes.workload import Workload

MTP_INPUTS = 5  # tensors as large as a layer's input that an MTP module keeps beyond its layer
FINAL_NORM_INPUTS = 1  # of Megatron-Core's norm, which keeps what enters it
MOST_ENTRIES = 1 << 21  # maximum entries of a table of held layers at some moments: 16 MiB


class KeptLayers(NamedTuple):
    """Numbers of layers that micro batches keep on a rank, ``[stage, n]`` or ``[stage, 1]``.

    For their backward: layers kept whole by kind, checkpoints of the others, losses. For separate weight gradients: layers by
    kind, including recomputed ones, and heads.
    """

    layers: LayersByKind
    inputs: Floats
    losses: Floats
    waiting: LayersByKind
    waiting_heads: Floats

    @property
    def columns(self) -> list[Floats]:
        """All numbers as one list of ``[stage, n]``; ``of_columns`` is the inverse."""
        return [*self.layers, self.inputs, self.losses, *self.waiting, self.waiting_heads]

    @classmethod
    def of_columns(cls, columns: list[Floats]) -> KeptLayers:
        """The inverse of ``columns``."""
        kinds = (len(columns) - 3) // 2
        layers, (inputs, losses), waiting = columns[:kinds], columns[kinds : kinds + 2], columns[kinds + 2 : -1]
        return cls(tuple(layers), inputs, losses, tuple(waiting), columns[-1])

    def take(self, index: IntColumn) -> KeptLayers:
        """The chosen columns."""
        return self.of_columns([column if column.shape[-1] == 1 else column.take(index, axis=-1) for column in self.columns])

    def at(self, moment: IntColumn) -> KeptLayers:
        """From ``[moment, stage, n]``, the numbers of each stage at its own ``moment`` ``[stage, n]``. Returns ``[stage, n]``."""
        stage, row = np.arange(len(moment))[:, None], np.arange(moment.shape[1])
        columns = (np.broadcast_to(column, (len(column), *moment.shape)) for column in self.columns)
        return self.of_columns([column[0] if len(column) == 1 else column[moment, stage, row] for column in columns])

    def chunk(self, index: int) -> KeptLayers:
        """Numbers of one chunk, ``[stage, n]``, selected from the numbers of all chunks."""
        return self.of_columns([column[index] for column in self.columns])

    def where(self, chosen: NDArray[np.bool_], other: KeptLayers) -> KeptLayers:
        """Numbers of this object where ``chosen`` ``[stage, n]``, numbers of ``other`` elsewhere."""
        pairs = zip(self.columns, other.columns, strict=True)
        return self.of_columns([np.where(chosen, mine, theirs) for mine, theirs in pairs])


def module_inputs(workload: Workload, batch: StrategyBatch) -> Floats:
    """What the MTP modules keep of one micro batch beyond their layers, in inputs of a layer. ``[n]``

    Each keeps the hidden state before it, the shifted embedding, their concatenation behind their norms, and the input of its
    last norm: five inputs of a layer. Its layer's own input is a part of what tensor parallelism gathered behind the projection,
    and keeps the whole alive [megatron-0.19, multi_token_prediction.py; mappings.py].
    """
    beside = np.where(batch.sequence_parallel != 0, batch.tp - 1.0, 0.0) * workload.software_traits.eager
    return (MTP_INPUTS + beside) * workload.model.mtp_num_layers


def keeps_shared_outputs(workload: Workload, stages: Stages) -> bool:
    """Whether each MoE layer keeps the output of its shared experts, as large as its input, until the dispatch's backward.

    Megatron-Core's merged passes do, which go from micro batch to micro batch [megatron-0.19, fine_grained_callables.py]; those
    of two chunks of a V are not in Megatron-Core.
    """
    shape, pairs = workload.model.moe, stages.schedule.rules.pairs
    merged = stages.merge_pairs and pairs is not None and not pairs.of_other_chunk
    shared = shape is not None and shape.shared_expert_ffn_hidden_size > 0
    return merged and shared and workload.software_traits.keeps_shared_output


def kept_layers(workload: Workload, stages: Stages, batch: StrategyBatch, chunks: LayerCounts) -> KeptLayers:
    """Layers, checkpoints and losses that one micro batch keeps on each chunk for its backward, ``[chunk, stage, n]``.

    Layers that wait for weight gradients are zero here. Outputs of shared experts that wait count among the inputs. So do MTP
    modules on a stage without the head, with the final norm before them; those beside the head belong to its loss.

    Parameters
    ----------
    chunks : ``[chunk, stage, n]``
    """
    zero = np.zeros((stages.num_chunks, stages.num_kinds, len(batch)))
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    recomputed = sum(chunks.again, zero)
    inputs = np.where(uniform, np.ceil(recomputed / group), recomputed)
    idle = sum(chunks.layers) + chunks.mtps * stages.mtp_layers + chunks.embeddings + chunks.heads == 0
    inputs = inputs + idle * (1.0 + chunks.relays[1])  # an empty stage holds its input until its backward
    inputs = inputs + chunks.mtps * (chunks.heads == 0) * (module_inputs(workload, batch) + FINAL_NORM_INPUTS)
    layers = stages.with_mtp(chunks.layers, chunks.mtps)
    whole = tuple(number - again for number, again in zip(layers, chunks.again, strict=True))
    if keeps_shared_outputs(workload, stages):
        inputs = inputs + sum(number for number, kind in zip(whole, stages.layer_kinds, strict=True) if kind.moe)
    return KeptLayers(whole, inputs, zero + chunks.heads, (zero,) * len(whole), zero)


def waiting_layers(stages: Stages, batch: StrategyBatch, chunks: LayerCounts) -> KeptLayers:
    """Layers and heads that one micro batch keeps on each chunk from input gradient to weight gradient, ``[chunk, stage, n]``.

    Everything else is zero here.

    Parameters
    ----------
    chunks : ``[chunk, stage, n]``
    """
    zero = np.zeros((stages.num_chunks, stages.num_kinds, len(batch)))
    waiting = tuple(zero + number for number in stages.with_mtp(chunks.layers, chunks.mtps))
    return KeptLayers((zero,) * len(waiting), zero, zero, waiting, zero + chunks.heads)


def layers_in_flight(
    stages: Stages, batch: StrategyBatch, num_microbatches: Floats, chunks: LayerCounts, kept: KeptLayers, width: int
) -> Iterator[KeptLayers]:
    """Layers that every kind of rank holds at the moments that can be its peak, for strategies of one group.

    If the chunks of a rank keep equal amounts, that is one moment. Otherwise a later moment with no more chunks can be heavier.
    Yields ``[moment, stage, n]`` or ``[moment, stage, 1]``, some moments at a time; the caller weighs them in bytes.

    Parameters
    ----------
    num_microbatches : ``[n]``
    chunks, kept : ``[chunk, stage, n]``
        Contents of each chunk, and their ``kept_layers``.
    width
        Columns into which the caller expands these; it limits the moments yielded at once.
    """
    before = np.stack(kept._replace(losses=np.zeros_like(kept.losses)).columns)  # [column, chunk, stage, n]
    differ = bool((before != before[:, :1]).any())
    tables = before
    if stages.schedule.rules.splits_backward:  # waiting layers follow as further chunks
        tables = np.concatenate([before, np.stack(waiting_layers(stages, batch, chunks).columns)], axis=1)
    losses = len(stages.layer_kinds) + 1  # column of the losses, after the layers and the inputs
    at_once = max(MOST_ENTRIES // (before.size * -(-width // len(batch))), 1)
    for moments in stages.schedule.rules.in_flight(stages, num_microbatches, batch.group_size, differ):
        parts = (moments.forwards, moments.weights) if stages.schedule.rules.splits_backward else (moments.forwards,)
        for first in range(0, len(moments.losses), at_once):
            some = slice(first, first + at_once)
            shape = (len(moments.losses[some]), stages.num_chunks, stages.num_kinds, len(batch))
            counts = np.concatenate([np.broadcast_to(part[some], shape) for part in parts], axis=1)
            held = np.einsum("mckn,ockn->omkn", counts, tables)
            held[losses] = moments.losses[some]
            # A column of zeros stays a single column.
            yield KeptLayers.of_columns([column if column.any() else column[..., :1] for column in held])


def expanded_layers(stages: Stages, batch: StrategyBatch, chunks: LayerCounts) -> LayersByKind:
    """Layers of each kind that a full recompute expands at once on each kind of rank, ``[stage, n]`` each.

    One layer, or a whole group under the uniform method.

    Parameters
    ----------
    chunks : ``[chunk, stage, n]``
    """
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    at_once = np.where(uniform, np.minimum(group, sum(chunks.again)), 1.0)
    return tuple(np.where(again > 0, at_once, 0.0).max(axis=0) for again in chunks.again)
