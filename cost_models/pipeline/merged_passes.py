"""Savings from merging forwards with backwards on a pipeline rank: the pairs of layers that meet, and their number."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.pairs import PairSavings
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Meetings:
    """Numbers of layer pairs that meet, by kind of the forward's and of the backward's layer: ``[kind, 1]`` or ``[kind, n]``."""

    counts: tuple[tuple[Floats, ...], ...]

    def saving_s(self, savings: PairSavings) -> Floats:
        """Total saving in seconds, ``[kind, n]``.

        Parameters
        ----------
        savings : ``[n]``, seconds
            Of one pair of layers, by their kinds.
        """
        parts = [
            count * saved
            for counts, row in zip(self.counts, savings.by_kinds, strict=True)
            for count, saved in zip(counts, row, strict=True)
            if saved is not None
        ]
        total: Floats = sum(parts[1:], parts[0])
        return total


class LayersMet:
    """Layers that meet on the ranks of some stages.

    The first layer of the forward meets the last layer of the backward, the second the last but one. A layer without a partner
    runs alone [mindspeed-fb-overlap, transformer_block.py]. An MTP module is one more layer after those of its stage.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._steady: dict[int, Floats] = {}

    @cached_property
    def sequences(self) -> list[list[tuple[int, ...]]]:
        """Kinds of the layers of every chunk, in order, ``[kind][chunk]``."""
        return [[tuple(layer - 1 for layer in chunk if layer) for chunk in rank] for rank in self._layers.tolist()]

    @cached_property
    def _layers(self) -> NDArray[np.int64]:
        return _layers_in_order(self._stages)

    @cached_property
    def meetings(self) -> list[list[Meetings]]:
        """Meetings of a forward of each chunk with a backward of each, ``[forward][backward]``."""
        counts = _counts_met(self._layers.swapaxes(0, 1), len(self._stages.layer_kinds))
        chunks = range(self._stages.num_chunks)
        return [[_of_counts(counts[:, :, forward, backward]) for backward in chunks] for forward in chunks]

    def partners(self, chunk: int) -> list[int]:
        """Chunks whose backwards can meet the forwards of a chunk."""
        pairs = self._stages.schedule.rules.pairs
        return [1 - chunk] if pairs is not None and pairs.of_other_chunk else list(range(self._stages.num_chunks))

    def steady(self, group_size: int) -> Floats:
        """Number of layer pairs of a micro batch on whole ranks in steady state, ``[layer kind, layer kind, kind]``.

        Two streams meet each other. The chunks of one stream alternate in groups of ``group_size`` micro batches; forwards are
        ahead of backwards by the warm-up of the first rank of a kind.
        """
        if group_size not in self._steady:
            stages, number = self._stages, len(self._stages.layer_kinds)
            counts = np.zeros((number, number, stages.num_kinds))
            for kind, rank in enumerate(stages.first_rank[:, 0].astype(np.int64).tolist()):
                for forward, backward, share in _turns(stages.pp, stages.vpp, group_size, rank):
                    counts[:, :, kind] += share * np.array(self.meetings[forward][backward].counts)[:, :, kind, 0]
            self._steady[group_size] = counts
        return self._steady[group_size]


Pairs = tuple[tuple[int, int, int], ...]  # kind of the forward's layer, kind of the backward's, number


@lru_cache(maxsize=4096)
def _pairs(first: tuple[int, ...], second: tuple[int, ...]) -> Pairs:
    """Pairs of layers of two chunks that meet, from the kinds of their layers."""
    return tuple((*pair, number) for pair, number in Counter(zip(first, reversed(second), strict=False)).items())


@lru_cache(maxsize=64)  # about the number of placements of one pipeline; tables of many virtual stages are large
def layers_met(stages: Stages) -> LayersMet:
    """The layers that meet on some stages, cached."""
    return LayersMet(stages)


@dataclass(frozen=True)
class MergedPasses:
    """Savings on a group's ranks; ``savings`` has the savings of one pair of layers, ``[n]``."""

    stages: Stages
    savings: PairSavings

    @property
    def _met(self) -> LayersMet:
        return layers_met(self.stages)

    def of(self, forward: int, backward: int) -> Floats:
        """Seconds saved by one pair of a chunk's forward with a chunk's backward, ``[kind, n]``."""
        return self._met.meetings[forward][backward].saving_s(self.savings)

    def met(self, forward: tuple[int, int], backward: tuple[int, int]) -> Floats:
        """Seconds saved by one pair of chunks of any two kinds of rank, ``[n]``.

        Parameters
        ----------
        forward, backward
            Kind of rank and chunk.
        """
        first, second = (self._met.sequences[kind][chunk] for kind, chunk in (forward, backward))
        pairs = _pairs(first, second)
        if pairs not in self._of_pairs:
            saving = np.zeros(1)
            for ahead, back, number in pairs:
                saved = self.savings.by_kinds[ahead][back]
                if saved is not None:
                    saving = saving + number * saved
            self._of_pairs[pairs] = saving
        return self._of_pairs[pairs]

    @cached_property
    def _of_pairs(self) -> dict[Pairs, Floats]:
        return {}  # many chunks hold equally many layers of each kind

    @cached_property
    def most_of_chunk_s(self) -> list[Floats]:
        """Largest saving of a pair with a chunk's forward, in seconds, ``[chunk]`` of ``[kind, n]``."""
        met = self._met
        found = [
            _distinct([met.meetings[chunk][back] for back in met.partners(chunk)]) for chunk in range(self.stages.num_chunks)
        ]
        return [np.max([meetings.saving_s(self.savings) for meetings in of_chunk], axis=0) for of_chunk in found]

    def steady_s(self, group_size: IntColumn) -> Floats:
        """Seconds saved a micro batch on whole ranks in steady state, ``[kind, n]``.

        Parameters
        ----------
        group_size : ``[n]``
        """
        stages, met = self.stages, self._met
        if not stages.schedule.rules.in_groups:
            chosen = [met.meetings[chunk][partner] for chunk in range(stages.num_chunks) for partner in met.partners(chunk)]
            return _of_counts(np.sum([each.counts for each in chosen], axis=0)).saving_s(self.savings)
        sizes, index = np.unique(group_size, return_inverse=True)
        counts = np.stack([met.steady(size) for size in sizes.tolist()], axis=-1)
        return _of_counts(counts[..., index.reshape(-1)]).saving_s(self.savings)


def _turns(pp: int, vpp: int, group_size: int, rank: int) -> list[tuple[int, int, float]]:
    """Pairs of the interleaved schedule: (chunk of the forward, chunk of the backward, share of the backward's passes)."""
    ahead = 2 * (pp - 1 - rank) + (vpp - 1) * group_size + 1
    turn, more = divmod(ahead, group_size)
    found = []
    for chunk in range(vpp):
        for later, passes in ((turn, group_size - more), (turn + 1, more)):
            if passes:
                found.append(((chunk + later) % vpp, vpp - 1 - chunk, passes / group_size))
    return found


def _layers_in_order(stages: Stages) -> NDArray[np.int64]:
    """Every layer of a chunk in order, ``[kind, chunk, layer]``: 1 + its kind of layer, 0 after the last."""
    longest = stages.prefix.shape[3] - 1
    layers = np.zeros((stages.num_kinds, stages.num_chunks, longest + stages.mtp_layers), dtype=np.int64)
    for number, prefix in enumerate(stages.prefix):
        layers[:, :, :longest] += (1 + number) * np.diff(prefix)
    for kind, chunk in np.argwhere(stages.has_mtp > 0):
        end = int(stages.layers[:, kind, chunk].sum())
        layers[kind, chunk, end : end + stages.mtp_layers] = 1 + stages.last_layer
    return layers


def _counts_met(layers: NDArray[np.int64], num_layer_kinds: int) -> Floats:
    """Meetings of every two chunks: ``[layer kind, layer kind, chunk, chunk, kind, 1]``.

    Parameters
    ----------
    layers : ``[chunk, kind, layer]``
    """
    number = (layers > 0).sum(axis=2, keepdims=True)
    behind = number - 1 - np.arange(layers.shape[2])
    back = np.where(behind >= 0, np.take_along_axis(layers, np.maximum(behind, 0), axis=2), 0)
    ahead, back = layers[:, None], back[None]
    met = np.where((ahead > 0) & (back > 0), (ahead - 1) * num_layer_kinds + back - 1, -1)
    pairs = [(met == pair).sum(axis=3, keepdims=True, dtype=np.float64) for pair in range(num_layer_kinds**2)]
    return np.stack(pairs).reshape(num_layer_kinds, num_layer_kinds, *pairs[0].shape)


def _of_counts(counts: Floats) -> Meetings:
    """Meetings from a table ``[layer kind, layer kind, kind, n]``."""
    return Meetings(tuple(tuple(row) for row in counts))


def _distinct(found: list[Meetings]) -> list[Meetings]:
    return list({np.array(one.counts).tobytes(): one for one in found}.values())
