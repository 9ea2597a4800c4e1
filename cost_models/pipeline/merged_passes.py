"""What a pipeline rank saves by merging forwards with backwards: which layers meet, and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.pairs import PairSavings
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn


@dataclass(frozen=True)
class Meetings:
    """Pairs of layers that meet, by kind of the forward's layer and of the backward's: ``[kind, 1]`` or ``[kind, n]`` each."""

    counts: tuple[tuple[Floats, ...], ...]

    def saving_s(self, savings: PairSavings) -> Floats:
        """Together, ``[kind, n]``.

        Parameters
        ----------
        savings : PairSavings, ``[n]``, seconds
            Of one pair of layers of each sort.

        Returns
        -------
        Floats, ``[kind, n]``, seconds
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
    """Which layers meet on the ranks of some stages, whatever that saves.

    The first layer of the forward meets the last one of the backward, the second the last but one; what finds no partner runs
    alone [mindspeed-fb-overlap, transformer_block.py]. An MTP module is one more layer behind those of its stage.
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
        """Of a forward of each chunk with a backward of each, ``[forward][backward]``."""
        counts = _counts_met(self._layers.swapaxes(0, 1), len(self._stages.layer_kinds))
        chunks = range(self._stages.num_chunks)
        return [[_of_counts(counts[:, :, forward, backward]) for backward in chunks] for forward in chunks]

    def partners(self, chunk: int) -> list[int]:
        """Chunks whose backwards the forwards of a chunk may meet.

        Parameters
        ----------
        chunk : int
            Chunk of the forward.

        Returns
        -------
        list of int
        """
        pairs = self._stages.schedule.rules.pairs
        return [1 - chunk] if pairs is not None and pairs.of_other_chunk else list(range(self._stages.num_chunks))

    def steady(self, group_size: int) -> Floats:
        """Of a micro batch on whole ranks between fill and drain, ``[layer kind, layer kind, kind]``.

        Two streams meet each other; the chunks of one take turns in groups of ``group_size`` micro batches, forwards as many
        ahead of backwards as the first rank of a kind warms up with.

        Parameters
        ----------
        group_size : int
            Micro batches that the interleaved schedule passes through a chunk before the next.

        Returns
        -------
        Floats, pairs of layers
        """
        if group_size not in self._steady:
            stages, number = self._stages, len(self._stages.layer_kinds)
            counts = np.zeros((number, number, stages.num_kinds))
            for kind, rank in enumerate(stages.first_rank[:, 0].astype(np.int64).tolist()):
                for forward, backward, share in _turns(stages.pp, stages.vpp, group_size, rank):
                    counts[:, :, kind] += share * np.array(self.meetings[forward][backward].counts)[:, :, kind, 0]
            self._steady[group_size] = counts
        return self._steady[group_size]


Pairs = tuple[tuple[int, int, int], ...]  # kind of the forward's layer, of the backward's, how many


@lru_cache(maxsize=4096)
def _pairs(first: tuple[int, ...], second: tuple[int, ...]) -> Pairs:
    """Which layers of two chunks meet, from the kinds of their layers."""
    return tuple((*pair, number) for pair, number in Counter(zip(first, reversed(second), strict=False)).items())


@lru_cache(maxsize=64)  # about as many as one pipeline has placements; tables of many virtual stages are large
def layers_met(stages: Stages) -> LayersMet:
    """Kept for as long as the stages come back.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of a pipeline.

    Returns
    -------
    LayersMet
    """
    return LayersMet(stages)


@dataclass(frozen=True)
class MergedPasses:
    """Savings of a group's ranks; ``savings`` are those of one pair of layers, ``[n]``."""

    stages: Stages
    savings: PairSavings

    @property
    def _met(self) -> LayersMet:
        return layers_met(self.stages)

    def of(self, forward: int, backward: int) -> Floats:
        """One pair: a chunk's forward with a chunk's backward, ``[kind, n]``.

        Parameters
        ----------
        forward : int
            Chunk of the forward.
        backward : int
            Chunk of the backward.

        Returns
        -------
        Floats, ``[kind, n]``, seconds
        """
        return self._met.meetings[forward][backward].saving_s(self.savings)

    def met(self, forward: tuple[int, int], backward: tuple[int, int]) -> Floats:
        """One pair of chunks of any two kinds of rank, ``[n]``: what ``of`` has for chunks of one rank.

        Parameters
        ----------
        forward : tuple of int
            Kind of rank and chunk of the forward.
        backward : tuple of int
            Kind of rank and chunk of the backward.

        Returns
        -------
        Floats, ``[n]``, seconds
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
        """What no pair of a chunk's forward exceeds, ``[chunk]`` of ``[kind, n]``."""
        met = self._met
        found = [
            _distinct([met.meetings[chunk][back] for back in met.partners(chunk)]) for chunk in range(self.stages.num_chunks)
        ]
        return [np.max([meetings.saving_s(self.savings) for meetings in of_chunk], axis=0) for of_chunk in found]

    def steady_s(self, group_size: IntColumn) -> Floats:
        """Of a micro batch on whole ranks between fill and drain, ``[kind, n]``.

        Parameters
        ----------
        group_size : IntColumn, ``[n]``
            Micro batches that the interleaved schedule passes through a chunk before the next; default pp.

        Returns
        -------
        Floats, ``[kind, n]``, seconds a micro batch
        """
        stages, met = self.stages, self._met
        if not stages.schedule.rules.in_groups:
            chosen = [met.meetings[chunk][partner] for chunk in range(stages.num_chunks) for partner in met.partners(chunk)]
            return _of_counts(np.sum([each.counts for each in chosen], axis=0)).saving_s(self.savings)
        sizes, index = np.unique(group_size, return_inverse=True)
        counts = np.stack([met.steady(size) for size in sizes.tolist()], axis=-1)
        return _of_counts(counts[..., index.reshape(-1)]).saving_s(self.savings)


def _turns(pp: int, vpp: int, group_size: int, rank: int) -> list[tuple[int, int, float]]:
    """(chunk of the forward, chunk of the backward, share of the backward's passes) of the interleaved schedule's pairs."""
    ahead = 2 * (pp - 1 - rank) + (vpp - 1) * group_size + 1
    turn, more = divmod(ahead, group_size)
    found = []
    for chunk in range(vpp):
        for later, passes in ((turn, group_size - more), (turn + 1, more)):
            if passes:
                found.append(((chunk + later) % vpp, vpp - 1 - chunk, passes / group_size))
    return found


def _layers_in_order(stages: Stages) -> NDArray[np.int64]:
    """Every layer of a chunk in order, ``[kind, chunk, layer]``: 1 + its kind of layer, 0 behind the last."""
    longest = stages.prefix.shape[3] - 1
    layers = np.zeros((stages.num_kinds, stages.num_chunks, longest + stages.mtp_layers), dtype=np.int64)
    for number, prefix in enumerate(stages.prefix):
        layers[:, :, :longest] += (1 + number) * np.diff(prefix)
    for kind, chunk in np.argwhere(stages.has_mtp > 0):
        end = int(stages.layers[:, kind, chunk].sum())
        layers[kind, chunk, end : end + stages.mtp_layers] = 1 + stages.last_layer
    return layers


def _counts_met(layers: NDArray[np.int64], num_layer_kinds: int) -> Floats:
    """Of every two chunks, whose layers are ``[chunk, kind, layer]``: ``[layer kind, layer kind, chunk, chunk, kind, 1]``."""
    number = (layers > 0).sum(axis=2, keepdims=True)
    behind = number - 1 - np.arange(layers.shape[2])
    back = np.where(behind >= 0, np.take_along_axis(layers, np.maximum(behind, 0), axis=2), 0)
    ahead, back = layers[:, None], back[None]
    met = np.where((ahead > 0) & (back > 0), (ahead - 1) * num_layer_kinds + back - 1, -1)
    pairs = [(met == pair).sum(axis=3, keepdims=True, dtype=np.float64) for pair in range(num_layer_kinds**2)]
    return np.stack(pairs).reshape(num_layer_kinds, num_layer_kinds, *pairs[0].shape)


def _of_counts(counts: Floats) -> Meetings:
    """Meetings of a table ``[layer kind, layer kind, kind, n]``."""
    return Meetings(tuple(tuple(row) for row in counts))


def _distinct(found: list[Meetings]) -> list[Meetings]:
    return list({np.array(one.counts).tobytes(): one for one in found}.values())
