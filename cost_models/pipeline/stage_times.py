"""Time of one micro batch on a pipeline rank, or on one of its chunks: layers, embedding, head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from cost_models.layer.costs import LayerCosts
from cost_models.layer.edges import EdgeCosts
from cost_models.pipeline.stages import LayersByKind, Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import StrategyBatch
from documents.late_methods import dataclass


@dataclass(frozen=True)
class LayerCounts:
    """Layers of each kind, fully recomputed layers, embeddings and heads: ``[kind, 1]`` or ``[kind, n]``.

    ``mtps`` is 1 where the MTP modules run. ``relays`` are outputs of MTP modules that a forward sends on in addition to its
    own, and gradients of them that a backward sends on.
    """

    layers: LayersByKind
    again: LayersByKind
    embeddings: Floats
    heads: Floats
    mtps: Floats
    relays: tuple[Floats, Floats]

    def reduced(self, of_column: Callable[[Floats], Floats]) -> LayerCounts:
        """Counts with ``of_column`` applied to every column."""
        forward, backward = map(of_column, self.relays)
        layers, again = tuple(map(of_column, self.layers)), tuple(map(of_column, self.again))
        embeddings, heads, mtps = map(of_column, (self.embeddings, self.heads, self.mtps))
        return LayerCounts(layers, again, embeddings, heads, mtps, (forward, backward))

    def chunk(self, index: int) -> LayerCounts:
        """Counts ``[kind, n]`` of one chunk, selected from the counts of all chunks."""
        return self.reduced(lambda column: column[index])


def chunk_counts(stages: Stages, batch: StrategyBatch) -> LayerCounts:
    """Contents of each chunk of a rank, ``[chunk, kind, n]``."""
    held = np.concatenate([stages.layers, [stages.has_embedding, stages.has_head, stages.has_mtp], stages.relays])
    by_chunk = held.swapaxes(1, 2)[..., None].astype(np.float64)
    *layers, embeddings, heads, mtps, forward, backward = by_chunk
    return LayerCounts(tuple(layers), stages.recomputed(batch), embeddings, heads, mtps, (forward, backward))


def rank_counts(chunks: LayerCounts) -> LayerCounts:
    """Contents of all chunks of a rank together, ``[kind, n]``.

    Parameters
    ----------
    chunks : ``[chunk, kind, n]``
    """
    return chunks.reduced(lambda column: column[0] if len(column) == 1 else column.sum(axis=0))


@dataclass(frozen=True)
class PassTimes:
    """Seconds of one micro batch on the layers in ``counts``, ``[kind, n]``; each sum is computed on first use.

    ``forward`` and ``backward`` (with recompute) include exposed communication. An MTP module is one more layer and a
    projection with its collectives, and one more head on the head's rank. ``relay_s`` is one send for MTP modules between their
    stage and the head's. ``extra_s`` is extra time of the backward. ``pair_saving`` is the saving of merging a forward with
    another micro batch's backward.
    """

    counts: LayerCounts
    stages: Stages
    costs: tuple[LayerCosts, ...]  # one entry for each kind of layer
    edges: EdgeCosts
    relay_s: Floats | float = 0.0
    extra_s: Floats | float = 0.0
    pair_saving: Floats | float = 0.0

    @cached_property
    def forward(self) -> Floats:
        """Seconds of the forward, ``[kind, n]``."""
        edge = self._edge(self.edges.embedding_forward_s, self.edges.head_forward_s, 1.0, self.edges.mtp_comm_s[0])
        return self._relayed(self._sum("forward_s", self._num_layers) + edge, 0)

    @cached_property
    def backward(self) -> Floats:
        """Seconds of the backward, ``[kind, n]``: gradients of inputs and weights, recompute, ``extra_s``."""
        edge = self._edge(self.edges.embedding_backward_s, self.edges.head_backward_s, 2.0, self.edges.mtp_comm_s[1])
        again = self._sum("full_recompute_s", self.counts.again)
        return self._relayed(self._sum("backward_s", self._num_layers) + again + edge + self.extra_s, 1)

    def saving(self, seconds: Floats) -> PassTimes:
        """Copy of the passes with other savings of merged pairs, ``[kind, n]``; existing sums are reused."""
        found = replace(self, pair_saving=seconds)
        vars(found).update(forward=self.forward, backward=self.backward)
        return found

    @property
    def pair(self) -> Floats:
        """Seconds of a forward and a backward, ``[kind, n]``, merged if the schedule merges pairs."""
        return self.whole - self.pair_saving

    @cached_property
    def weight_gradient(self) -> Floats:
        """Seconds of the part of the backward that can run separately, ``[kind, n]``."""
        none = np.zeros_like(self.edges.head_weight_gradient_s)
        return self._sum("weight_gradient_s", self._num_layers) + self._edge(none, self.edges.head_weight_gradient_s, 1.0, none)

    @property
    def whole(self) -> Floats:
        """Seconds of a forward and a backward, one after the other, ``[kind, n]``."""
        return self.forward + self.backward

    @cached_property
    def _num_layers(self) -> LayersByKind:
        return self.stages.with_mtp(self.counts.layers, self.counts.mtps)

    def _sum(self, name: str, numbers: LayersByKind) -> Floats:
        parts = [number * getattr(costs, name) for number, costs in zip(numbers, self.costs, strict=True)]
        total: Floats = sum(parts[1:], parts[0])
        return total

    def _edge(self, embedding_s: Floats, head_s: Floats, projections: float, mtp_comm_s: Floats) -> Floats:
        modules = self.stages.mtp_layers
        total: Floats = self.counts.embeddings * embedding_s + self.counts.heads * (1 + modules) * head_s
        if not modules:
            return total
        return total + modules * self.counts.mtps * (projections * self.edges.mtp_projection_s + mtp_comm_s)

    def _relayed(self, seconds: Floats, direction: int) -> Floats:
        relays = self.counts.relays[direction]
        return seconds + relays * self.relay_s if relays.any() else seconds
