"""Ranks of many placements of one pipeline in one table, so that what they share is priced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.stages import Counts, Stages
from cost_models.shapes.strategy import IntColumn

Sorts = tuple[tuple[int, ...], ...]  # [rank][chunk]


class RankTable(NamedTuple):
    """Ranks of some placements, each once, as the kinds of one ``Stages``, and which of them each placement has.

    It is no pipeline: it is for what is priced rank by rank.
    """

    ranks: Stages
    of_placement: tuple[tuple[int, ...], ...]

    def under(self, chosen: IntColumn) -> RankTable:
        """The ranks of some of the placements.

        Parameters
        ----------
        chosen : IntColumn
            Which placements.

        Returns
        -------
        RankTable
        """
        of_placement = [self.of_placement[index] for index in chosen.tolist()]
        kinds = sorted({kind for each in of_placement for kind in each})
        numbers, every = {kind: number for number, kind in enumerate(kinds)}, self.ranks
        ranks = replace(
            every,
            num_kinds=len(kinds),
            layers=every.layers[:, kinds],
            prefix=every.prefix[:, kinds],
            num_ranks=every.num_ranks[kinds],
            first_rank=every.first_rank[kinds],
            ranks=tuple(every.ranks[kind] for kind in kinds),
            has_embedding=every.has_embedding[kinds],
            has_head=every.has_head[kinds],
            has_mtp=every.has_mtp[kinds],
            relays=every.relays[:, kinds],
        )
        return RankTable(ranks, tuple(tuple(numbers[kind] for kind in each) for each in of_placement))


class ChunkTable(NamedTuple):
    """Chunks of some placements, each once, as ranks of one chunk, and which of them lie where.

    Their passes take as long as in the placements; what is in flight on them is nothing to go by.
    """

    chunks: Stages
    sorts: tuple[Sorts, ...]  # of each placement


def rank_table(placements: Sequence[Stages]) -> RankTable:
    """The distinct ranks of some placements.

    Parameters
    ----------
    placements : sequence of Stages
        Of one pipeline, schedule and model, without per-stage plans.

    Returns
    -------
    RankTable
    """
    found: dict[tuple[object, ...], tuple[Stages, int]] = {}
    numbers: dict[tuple[object, ...], int] = {}
    of_placement = []
    for stages in placements:
        kinds = []
        for kind, (same, contents) in enumerate(zip(stages.ranks, _contents(stages), strict=True)):
            what = (same[0], same[-1], *contents)
            found.setdefault(what, (stages, kind))
            kinds.append(numbers.setdefault(what, len(numbers)))
        of_placement.append(tuple(kinds))

    def column(take: Callable[[Stages, int], NDArray[Any]], axis: int = 0) -> NDArray[Any]:
        return np.stack([take(stages, kind) for stages, kind in found.values()], axis=axis)

    longest = max(stages.prefix.shape[3] for stages in placements)
    ranks = replace(
        placements[0],
        num_kinds=len(found),
        layers=column(lambda stages, kind: stages.layers[:, kind], 1),
        prefix=column(lambda stages, kind: _padded(stages.prefix[:, kind], longest), 1),
        num_ranks=column(lambda stages, kind: stages.num_ranks[kind]),
        first_rank=column(lambda stages, kind: stages.first_rank[kind]),
        ranks=tuple(stages.ranks[kind] for stages, kind in found.values()),
        has_embedding=column(lambda stages, kind: stages.has_embedding[kind]),
        has_head=column(lambda stages, kind: stages.has_head[kind]),
        has_mtp=column(lambda stages, kind: stages.has_mtp[kind]),
        relays=column(lambda stages, kind: stages.relays[:, kind], 1),
    )
    return RankTable(ranks, tuple(of_placement))


def chunk_table(placements: Sequence[Stages]) -> ChunkTable:
    """The distinct chunks of some placements.

    Parameters
    ----------
    placements : sequence of Stages
        Of one pipeline, schedule and model, without per-stage plans.

    Returns
    -------
    ChunkTable
    """
    found: dict[tuple[object, ...], tuple[Stages, int, int]] = {}
    numbers: dict[tuple[object, ...], int] = {}
    sorts = []
    for stages in placements:
        of_rank: dict[int, tuple[int, ...]] = {}
        for kind, (ranks, contents) in enumerate(zip(stages.ranks, _contents(stages), strict=True)):
            sort = []
            for chunk, what in enumerate(contents):
                found.setdefault(what, (stages, kind, chunk))
                sort.append(numbers.setdefault(what, len(numbers)))
            of_rank |= dict.fromkeys(ranks, tuple(sort))
        sorts.append(tuple(of_rank[rank] for rank in range(stages.pp)))

    def column(take: Callable[[Stages, int, int], Counts], axis: int = 0) -> Counts:
        return np.stack([take(*place) for place in found.values()], axis=axis)

    longest = max(stages.prefix.shape[3] for stages in placements)
    chunks = replace(
        placements[0],
        vpp=1,
        num_chunks=1,
        num_kinds=len(found),
        layers=column(lambda stages, kind, chunk: stages.layers[:, kind, [chunk]], 1),
        prefix=column(lambda stages, kind, chunk: _padded(stages.prefix[:, kind, [chunk]], longest), 1),
        has_embedding=column(lambda stages, kind, chunk: stages.has_embedding[kind, [chunk]]),
        has_head=column(lambda stages, kind, chunk: stages.has_head[kind, [chunk]]),
        has_mtp=column(lambda stages, kind, chunk: stages.has_mtp[kind, [chunk]]),
        relays=column(lambda stages, kind, chunk: stages.relays[:, kind, [chunk]], 1),
    )
    return ChunkTable(chunks, tuple(sorts))


def _contents(stages: Stages) -> list[list[tuple[object, ...]]]:
    """What each chunk holds, ``[kind][chunk]``, to tell whether two are alike; a prefix ends with its last layer."""
    number = stages.layers.sum(axis=0).tolist()
    edges = np.stack([stages.has_embedding, stages.has_head, stages.has_mtp, *stages.relays], axis=-1).tolist()
    return [
        [
            (stages.prefix[:, kind, chunk, : number[kind][chunk] + 1].tobytes(), *edges[kind][chunk])
            for chunk in range(stages.num_chunks)
        ]
        for kind in range(stages.num_kinds)
    ]


def _padded(prefix: Counts, longest: int) -> Counts:
    """Prefixes with as many places as the longest, the last repeated."""
    return np.pad(prefix, [(0, 0)] * (prefix.ndim - 1) + [(0, longest - prefix.shape[-1])], mode="edge")
