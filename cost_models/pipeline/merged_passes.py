"""What a pipeline rank saves by merging forwards with backwards: which layers meet, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.pairs import PairSavings
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, Schedule

DENSE, MOE = 1, 2


class Meetings(NamedTuple):
    """Pairs of layers that meet, the forward's kind first: ``[kind, 1]`` or ``[kind, n]``."""

    moe_moe: Floats
    dense_moe: Floats
    moe_dense: Floats

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
        return self.moe_moe * savings.moe_moe + self.dense_moe * savings.dense_moe + self.moe_dense * savings.moe_dense


@dataclass(frozen=True)
class MergedPasses:
    """Savings of a group's ranks; ``savings`` are those of one pair of layers, ``[n]``.

    The first layer of the forward meets the last one of the backward, the second the last but one; what finds no partner runs
    alone [mindspeed-fb-overlap, transformer_block.py]. An MTP module is one more layer beside the head.
    """

    stages: Stages
    savings: PairSavings

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
        return self._meetings[forward][backward].saving_s(self.savings)

    @cached_property
    def _meetings(self) -> list[list[Meetings]]:
        kinds = _layer_kinds(self.stages)
        chunks = range(self.stages.num_chunks)
        return [[_meetings(kinds[:, forward], kinds[:, backward]) for backward in chunks] for forward in chunks]

    def _partners(self, chunk: int) -> list[int]:
        """Chunks whose backwards the forwards of a chunk may meet: those of the other stream where there are two."""
        chunks = range(self.stages.num_chunks)
        return [1 - chunk] if self.stages.schedule in (Schedule.DUALPIPE, Schedule.DUALPIPE_V) else list(chunks)

    @cached_property
    def most_of_chunk_s(self) -> list[Floats]:
        """What no pair of a chunk's forward exceeds, ``[chunk]`` of ``[kind, n]``."""
        return [
            np.max(
                [found.saving_s(self.savings) for found in _distinct([self._meetings[chunk][b] for b in self._partners(chunk)])],
                0,
            )
            for chunk in range(self.stages.num_chunks)
        ]

    def steady_s(self, group_size: IntColumn) -> Floats:
        """Of a micro batch on whole ranks between fill and drain, ``[kind, n]``.

        Two streams meet each other; the chunks of one take turns in groups of ``group_size`` micro batches, forwards as many
        ahead of backwards as the first rank of a kind warms up with.

        Parameters
        ----------
        group_size : IntColumn, ``[n]``
            Micro batches that the interleaved schedule passes through a chunk before the next; default pp.

        Returns
        -------
        Floats, ``[kind, n]``, seconds a micro batch
        """
        stages = self.stages
        if stages.schedule is not Schedule.INTERLEAVED:
            chosen = [self._meetings[chunk][partner] for chunk in range(stages.num_chunks) for partner in self._partners(chunk)]
            return Meetings(*(np.sum(counts, axis=0) for counts in zip(*chosen, strict=True))).saving_s(self.savings)
        sizes, index = np.unique(group_size, return_inverse=True)
        counts = [np.zeros((stages.num_kinds, len(sizes))) for _ in Meetings._fields]
        for column, size in enumerate(sizes.tolist()):
            for kind, rank in enumerate(stages.first_rank[:, 0].astype(np.int64).tolist()):
                for forward, backward, share in _turns(stages.pp, stages.vpp, size, rank):
                    for count, met in zip(counts, self._meetings[forward][backward], strict=True):
                        count[kind, column] += share * met[kind, 0]
        return Meetings(*(count[:, index.reshape(-1)] for count in counts)).saving_s(self.savings)


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


def _layer_kinds(stages: Stages) -> NDArray[np.int64]:
    """Kind of every layer of a chunk in order, ``[kind, chunk, layer]``, 0 behind the last."""
    longest = stages.dense_prefix.shape[2] - 1
    kinds = np.zeros((stages.num_kinds, stages.num_chunks, longest + stages.mtp_layers), dtype=np.int64)
    kinds[:, :, :longest] = DENSE * np.diff(stages.dense_prefix) + MOE * np.diff(stages.moe_prefix)
    last = MOE if stages.last_layer_is_moe else DENSE
    for kind, chunk in np.argwhere(stages.has_head > 0):
        end = int(stages.dense[kind, chunk] + stages.moe[kind, chunk])
        kinds[kind, chunk, end : end + stages.mtp_layers] = last
    return kinds


def _meetings(forward: NDArray[np.int64], backward: NDArray[np.int64]) -> Meetings:
    """Of two chunks on every kind of rank, whose layers are ``[kind, layer]``."""
    number = (backward > 0).sum(axis=1, keepdims=True)
    behind = number - 1 - np.arange(backward.shape[1])
    backward = np.where(behind >= 0, np.take_along_axis(backward, np.maximum(behind, 0), axis=1), 0)

    def count(first: int, second: int) -> Floats:
        met: Floats = ((forward == first) & (backward == second)).sum(axis=1, keepdims=True, dtype=np.float64)
        return met

    return Meetings(count(MOE, MOE), count(DENSE, MOE), count(MOE, DENSE))


def _distinct(found: list[Meetings]) -> list[Meetings]:
    return list({np.concatenate(one).tobytes(): one for one in found}.values())
