"""Time of one micro batch on a pipeline rank, or on one of its chunks: layers, embedding, head."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from cost_models.layer.costs import LayerCosts
from cost_models.layer.edges import EdgeCosts
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import StrategyBatch


@dataclass(frozen=True)
class LayerCounts:
    """Layers by kind, how many of them are fully recomputed, embeddings and heads: ``[kind, 1]`` or ``[kind, n]``."""

    dense: Floats
    moe: Floats
    dense_again: Floats
    moe_again: Floats
    embeddings: Floats
    heads: Floats


def chunk_counts(stages: Stages, batch: StrategyBatch) -> list[LayerCounts]:
    """What each chunk of a rank holds, ``[chunk]``.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.

    Returns
    -------
    list of LayerCounts, ``[chunk]``
    """
    counts = []
    for chunk in range(stages.num_chunks):
        dense_again, moe_again = stages.recomputed(chunk, batch)
        held = (stages.dense, stages.moe, stages.has_embedding, stages.has_head)
        dense, moe, embeddings, heads = (column[:, chunk, None].astype(np.float64) for column in held)
        counts.append(LayerCounts(dense, moe, dense_again, moe_again, embeddings, heads))
    return counts


def rank_counts(chunks: list[LayerCounts]) -> LayerCounts:
    """What all chunks of a rank hold together.

    Parameters
    ----------
    chunks : list of LayerCounts, ``[chunk]``
        What each chunk holds.

    Returns
    -------
    LayerCounts
    """
    if len(chunks) == 1:
        return chunks[0]
    return LayerCounts(**{f.name: sum(getattr(c, f.name) for c in chunks) for f in fields(LayerCounts)})


@dataclass(frozen=True)
class PassTimes:
    """Seconds of one micro batch on what ``counts`` holds, ``[kind, n]``; each sum is made when it is first asked for.

    ``forward`` and ``backward`` (with recompute) include exposed communication; ``compute_*`` are the exclusive compute
    stream alone. An MTP module is one more layer beside the head, a projection, and the head again. ``extra_s`` is what
    else the backward takes, ``pair_saving`` what merging a forward with the backward of another micro batch saves.
    """

    counts: LayerCounts
    stages: Stages
    dense: LayerCosts
    moe: LayerCosts | None
    edges: EdgeCosts
    extra_s: Floats | float = 0.0
    pair_saving: Floats | float = 0.0

    @cached_property
    def forward(self) -> Floats:
        """Forward pass."""
        return self._sum("forward_s", *self._num_layers) + self._edge(
            self.edges.embedding_forward_s, self.edges.head_forward_s, 1.0
        )

    @cached_property
    def backward(self) -> Floats:
        """Backward pass: gradients of inputs and weights, recompute, ``extra_s``."""
        edge = self._edge(self.edges.embedding_backward_s, self.edges.head_backward_s, 2.0)
        again = self._sum("full_recompute_s", self.counts.dense_again, self.counts.moe_again)
        return self._sum("backward_s", *self._num_layers) + again + edge + self.extra_s

    @property
    def pair(self) -> Floats:
        """A forward and a backward, merged where the schedule merges pairs."""
        return self.whole - self.pair_saving

    @cached_property
    def weight_gradient(self) -> Floats:
        """Part of the backward that can run apart from it."""
        none = np.zeros_like(self.edges.head_weight_gradient_s)
        return self._sum("weight_gradient_s", *self._num_layers) + self._edge(none, self.edges.head_weight_gradient_s, 1.0)

    @property
    def whole(self) -> Floats:
        """Forward and backward, one after the other."""
        return self.forward + self.backward

    @property
    def _mtp(self) -> Floats:
        return self.counts.heads * self.stages.mtp_layers

    @cached_property
    def _num_layers(self) -> tuple[Floats, Floats]:
        return self.stages.with_mtp(self.counts.dense, self.counts.moe, self.counts.heads)

    def _sum(self, name: str, num_dense: Floats, num_moe: Floats) -> Floats:
        total: Floats = num_dense * getattr(self.dense, name)
        return total if self.moe is None else total + num_moe * getattr(self.moe, name)

    def _edge(self, embedding_s: Floats, head_s: Floats, projections: float) -> Floats:
        total: Floats = self.counts.embeddings * embedding_s + (self.counts.heads + self._mtp) * head_s
        return total if not self.stages.mtp_layers else total + projections * self._mtp * self.edges.mtp_projection_s
