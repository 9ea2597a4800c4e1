"""Ranks of many placements of one pipeline in one table, so that shared ranks are priced once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cost_models.pipeline.pace import Sorts
from cost_models.pipeline.stages import Counts, Stages, by_rank, ends_of_stages
from cost_models.shapes.strategy import IntColumn, Placement
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence


class RankTable(NamedTuple):
    """Distinct ranks of several placements, as the kinds of one ``Stages``, and the ranks of each placement.

    The ``Stages`` is not a pipeline. Use it only for prices of single ranks.
    """

    ranks: Stages
    of_placement: tuple[tuple[int, ...], ...]

    def under(self, chosen: IntColumn) -> RankTable:
        """The ranks of the chosen placements only."""
        of_placement = [self.of_placement[index] for index in chosen.tolist()]
        kinds = sorted({kind for each in of_placement for kind in each})
        numbers = {kind: number for number, kind in enumerate(kinds)}
        return RankTable(self.only(kinds), tuple(tuple(numbers[kind] for kind in each) for each in of_placement))

    def only(self, kinds: Sequence[int]) -> Stages:
        """Some of the ranks.

        Parameters
        ----------
        kinds : sequence of int
            Which of them.

        Returns
        -------
        Stages
        """
        chosen, every = list(kinds), self.ranks
        return replace(
            every,
            num_kinds=len(chosen),
            layers=every.layers[:, chosen],
            prefix=every.prefix[:, chosen],
            num_ranks=every.num_ranks[chosen],
            first_rank=every.first_rank[chosen],
            ranks=tuple(every.ranks[kind] for kind in chosen),
            has_embedding=every.has_embedding[chosen],
            has_head=every.has_head[chosen],
            has_mtp=every.has_mtp[chosen],
            relays=every.relays[:, chosen],
        )


class ChunkTable(NamedTuple):
    """Distinct chunks of several placements, as ranks of one chunk, and the sort of each chunk of a placement.

    Their passes take as long as in the placements. Their activations in flight are meaningless.
    """

    chunks: Stages
    sorts: tuple[Sorts, ...]  # one entry for each placement


@dataclass(frozen=True)
class PlacedChunks:
    """Contents of the chunks of several placements of one pipeline.

    ``sorts`` ``[placement, rank, chunk]``: equal chunks have the same sort. ``contents`` ``[sort]``: the kind of every layer in
    order, a byte each, and the values of ``ends_of_stages`` for the stage. ``one`` is the pipeline under any of the placements.
    """

    one: Stages
    sorts: Counts
    contents: tuple[tuple[bytes, tuple[int, ...]], ...]

    def stages(self, sorts: Counts) -> Stages:
        """Ranks that hold chunks of the given sorts.

        The number of ranks of each kind, and their indices, are taken from ``one``.

        Parameters
        ----------
        sorts : ``[rank, chunk]``
        """
        layers, ends = zip(*self.contents, strict=True)
        held = np.zeros((len(self.one.layer_kinds), len(layers), max(map(len, layers)) + 1), dtype=np.int64)
        for sort, kinds in enumerate(layers):  # the chunk's own layers begin at 1
            held[np.frombuffer(kinds, dtype=np.uint8), sort, np.arange(1, len(kinds) + 1)] = 1
        prefix = held.cumsum(axis=2)[:, sorts]
        embedding, head, mtp, *relays = np.array(ends, dtype=np.int64).T[:, sorts]
        return replace(
            self.one,
            num_kinds=len(sorts),
            num_chunks=sorts.shape[1],
            layers=prefix[..., -1],
            prefix=prefix,
            has_embedding=embedding,
            has_head=head,
            has_mtp=mtp,
            relays=np.stack(relays),
        )


def placed_chunks(model: ModelShape, one: Stages, placements: Iterable[Placement]) -> PlacedChunks:
    """The chunks of several placements. Raises ``ValueError`` if a placement does not hold the model's layers.

    Parameters
    ----------
    one
        The pipeline under any of the placements, without a per-stage plan.
    """
    kinds, numbers = bytes(map(one.layer_kinds.index, model.kinds_of_layers())), dict[tuple[bytes, tuple[int, ...]], int]()
    sorts = []
    for placement in placements:
        counts = [count for row in placement.layer_layout for count in row]
        if len(counts) != one.pp * one.vpp or sum(counts) != len(kinds):
            raise ValueError(
                Sentence("layer_layout {} does not place {} layers on {} stages", placement.layer_layout, len(kinds), one.pp)
            )
        ends, first = ends_of_stages(one.pp, one.vpp, placement.mtp_before_head, model.mtp_num_layers, one.schedule), 0
        for count, end in zip(counts, ends, strict=True):
            sorts.append(numbers.setdefault((kinds[first : first + count], end), len(numbers)))
            first += count
    by_stage = np.array(sorts).reshape(-1, one.vpp, one.pp).swapaxes(1, 2)
    return PlacedChunks(one, by_rank(by_stage, one.schedule), tuple(numbers))


def rank_table(placed: PlacedChunks) -> RankTable:
    """The distinct ranks of several placements."""
    numbers: dict[tuple[int, int, tuple[int, ...]], int] = {}
    ranks: list[tuple[int, ...]] = []
    of_placement = []
    for sorts in placed.sorts.tolist():
        alike: dict[tuple[int, ...], list[int]] = {}
        for rank, of_rank in enumerate(map(tuple, sorts)):
            alike.setdefault(of_rank, []).append(rank)
        kinds = []
        for of_rank, same in alike.items():
            number = numbers.setdefault((same[0], same[-1], of_rank), len(numbers))
            if number == len(ranks):
                ranks.append(tuple(same))
            kinds.append(number)
        of_placement.append(tuple(kinds))
    table = replace(
        placed.stages(np.array([of_rank for *_, of_rank in numbers])),
        num_ranks=np.array([[float(len(same))] for same in ranks]),
        first_rank=np.array([[float(same[0])] for same in ranks]),
        ranks=tuple(ranks),
    )
    return RankTable(table, tuple(of_placement))


def chunk_table(placed: PlacedChunks) -> ChunkTable:
    """The distinct chunks of several placements."""
    chunks = replace(placed.stages(np.arange(len(placed.contents))[:, None]), vpp=1)
    return ChunkTable(chunks, tuple(tuple(map(tuple, sorts)) for sorts in placed.sorts.tolist()))
