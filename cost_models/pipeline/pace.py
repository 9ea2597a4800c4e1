"""Pace of the interleaved schedule between fill and drain if its virtual stages differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from cost_models.pipeline.largest import largest_of, member_table
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn
from documents.late_methods import dataclass

Meeting = tuple[int, int]  # sorts of the chunk of the forward and of the chunk of the backward
Slots = tuple[tuple[float, tuple[Meeting, ...]], ...]
Sorts = tuple[tuple[int, ...], ...]  # sort of each chunk, [rank][chunk]; equal chunks have the same sort

MOST_ENTRIES = 1 << 20  # maximum entries of a table of meetings: 8 MiB


def slots_of(placements: Sequence[Sorts], group_size: int, *, merged: bool) -> list[Slots]:
    """Meetings of chunks in each slot of an interleaved pipeline, for several placements.

    In a slot every rank runs one forward and one backward. The backwards of a micro batch pass the ranks one after the other,
    so the k-th backward of every rank is one slot. Its forward is ahead by 2 (p - 1 - i) + (v - 1) g [megatron-0.12,
    schedules.py].

    Parameters
    ----------
    placements : ``[placement][rank][chunk]``
        Sort of each chunk; equal chunks have the same sort.
    group_size
        g, the micro batches that pass one chunk before the next.
    merged
        Passes are merged in pairs, which run one further ahead.

    Returns
    -------
    list of tuple of (slots a micro batch, meetings), ``[placement]``
        Slots with the same meetings are combined. They add up to v slots.
    """
    return [_slots_under(of_rank, group_size, merged=merged) for of_rank in placements]


@lru_cache(maxsize=4096)
def _slots_under(of_rank: Sorts, group_size: int, *, merged: bool) -> Slots:
    codes = np.array(of_rank)  # [rank, chunk]
    (pp, vpp), num_sorts = codes.shape, int(codes.max()) + 1
    rank, forward, backward = _turns(pp, vpp, group_size, merged=merged)
    met = np.sort(codes[rank, forward] * num_sorts + codes[rank, backward], axis=1)
    counts = Counter(met.view(f"V{pp * met.itemsize}").ravel().tolist())
    shares: dict[tuple[Meeting, ...], int] = {}
    for row, count in counts.items():
        meetings = tuple(divmod(code, num_sorts) for code in sorted(set(np.frombuffer(row, dtype=met.dtype).tolist())))
        shares[meetings] = shares.get(meetings, 0) + count
    return tuple((count / group_size, meetings) for meetings, count in shares.items())


@lru_cache(maxsize=64)
def _turns(pp: int, vpp: int, group_size: int, *, merged: bool) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Ranks, and the chunks of the forward and the backward that each rank runs in every slot, ``[slot, rank]``."""
    rank, slot = np.arange(pp), np.arange(vpp * group_size)
    ahead = 2 * (pp - 1 - rank) + (vpp - 1) * group_size + merged
    return rank, (ahead + slot[:, None]) // group_size % vpp, (vpp - 1 - slot // group_size % vpp)[:, None]


def sorts_of_chunks(stages: Stages) -> tuple[Sorts, list[tuple[int, int]]]:
    """Sort of each chunk, ``[rank][chunk]``, and one (kind of rank, chunk) as an example of each sort."""
    found: dict[object, int] = {}
    examples = []
    of_kind = np.zeros((stages.num_kinds, stages.num_chunks), dtype=np.int64)
    for kind, chunk in np.ndindex(of_kind.shape):
        edges = [int(edge[kind, chunk]) for edge in (stages.has_embedding, stages.has_head, stages.has_mtp, *stages.relays)]
        what = (stages.prefix[:, kind, chunk].tobytes(), *edges, stages.planned(kind, chunk))
        if what not in found:
            found[what] = len(found)
            examples.append((kind, chunk))
        of_kind[kind, chunk] = found[what]
    of_rank = {rank: tuple(map(int, of_kind[kind])) for kind, ranks in enumerate(stages.ranks) for rank in ranks}
    return tuple(of_rank[rank] for rank in range(stages.pp)), examples


@dataclass(frozen=True)
class SlotTable:
    """Slots of an interleaved pipeline under several placements; shared parts are stored once.

    ``meetings`` are distinct. ``members`` ``[turn, set]`` are the sets of meetings in the same slot (``largest.member_table``). A
    placement spends ``shares`` ``[slot, placement]`` of its slots on ``sets``; shares of 0 pad the table.
    """

    meetings: tuple[Meeting, ...]
    members: IntColumn
    sets: IntColumn
    shares: Floats

    def pace_s(self, meeting_s: Floats) -> Floats:
        """Seconds a micro batch if in every slot all ranks wait for the slowest, ``[placement, n]``.

        Parameters
        ----------
        meeting_s : ``[meeting, n]``
            A forward of one sort with a backward of another.
        """
        found = np.empty((self.shares.shape[1], meeting_s.shape[1]))
        width = max(MOST_ENTRIES // self.members.shape[1], 1)
        for first in range(0, meeting_s.shape[1], width):
            columns = slice(first, first + width)
            slowest = largest_of(meeting_s[:, columns], self.members)
            parts = (share[:, None] * slowest[chosen] for share, chosen in zip(self.shares, self.sets, strict=True))
            total = next(parts)
            for part in parts:
                total += part
            found[:, columns] = total
        return found


def slot_table(placements: Sequence[Sorts], group_size: int, *, merged: bool) -> SlotTable:
    """The slots of several placements of one pipeline, as in ``slots_of``."""
    meetings: dict[Meeting, int] = {}
    sets: dict[tuple[Meeting, ...], int] = {}
    slots = slots_of(placements, group_size, merged=merged)
    chosen = [[sets.setdefault(met, len(sets)) for _, met in each] for each in slots]
    members = member_table([[meetings.setdefault(one, len(meetings)) for one in met] for met in sets])
    longest = max(map(len, slots))
    return SlotTable(
        meetings=tuple(meetings),
        members=members,
        sets=np.array([[*each, *[0] * (longest - len(each))] for each in chosen]).T,
        shares=np.array([[*(share for share, _ in each), *[0.0] * (longest - len(each))] for each in slots]).T,
    )


def slowest_slots_s(
    table_of: Callable[[int], SlotTable], group_size: IntColumn, meeting_s: Callable[[int, int], Floats]
) -> Floats:
    """Seconds a micro batch if in every slot all ranks wait for the slowest, ``[placement, n]``.

    Parameters
    ----------
    table_of
        Slots for a group size.
    group_size : ``[n]``
        Micro batches that pass one chunk before the next.
    meeting_s
        Seconds ``[n]`` of a forward of one sort with a backward of another. It is called again for each group size.
    """
    found: list[tuple[IntColumn, Floats]] = []
    sizes = np.unique(group_size).tolist()
    for size in sizes:
        rows = np.flatnonzero(group_size == size)
        table = table_of(size)
        meetings = [meeting_s(*meeting) for meeting in table.meetings]
        found.append((rows, table.pace_s(np.stack(meetings if len(sizes) == 1 else [each[rows] for each in meetings]))))
    if len(sizes) == 1:
        return found[0][1]
    result = np.empty((len(found[0][1]), len(group_size)))
    for rows, pace_s in found:
        result[:, rows] = pace_s
    return result
