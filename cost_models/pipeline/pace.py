"""How fast the interleaved schedule runs between fill and drain where its virtual stages are not alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn

Meeting = tuple[int, int]  # sorts of the chunk that goes forward and of the one that goes backward
Slots = tuple[tuple[float, tuple[Meeting, ...]], ...]


@lru_cache(maxsize=1 << 14)
def slots_of(sorts: tuple[tuple[int, ...], ...], group_size: int, merged: bool) -> Slots:
    """What the ranks of an interleaved pipeline run in the same slot: one forward and one backward each.

    The backwards of a micro batch pass the ranks one after the other, so that the k-th backward of every rank is one slot,
    with the forward that its rank is ahead by: 2 (p - 1 - i) + (v - 1) g [megatron-0.12, schedules.py].

    Parameters
    ----------
    sorts : tuple of tuple of int, ``[rank][chunk]``
        Which chunks are alike.
    group_size : int
        Micro batches that pass one chunk before the next, g.
    merged : bool
        Whether passes are merged in pairs, which go one further ahead.

    Returns
    -------
    tuple of (slots a micro batch, meetings)
        Slots in which the same meetings take place are put together; they add up to v slots.
    """
    pp, vpp = len(sorts), len(sorts[0])
    present, table = np.unique(np.array(sorts), return_inverse=True)
    table = table.reshape(pp, vpp)
    rank, slot = np.arange(pp), np.arange(vpp * group_size)
    ahead = 2 * (pp - 1 - rank) + (vpp - 1) * group_size + merged
    forward = table[rank, (ahead + slot[:, None]) // group_size % vpp]
    backward = table[rank, (vpp - 1 - slot // group_size % vpp)[:, None]]
    codes = np.sort(forward * len(present) + backward, axis=1)
    counts: dict[tuple[int, ...], int] = {}
    for row in codes.tolist():
        met = tuple(sorted(set(row)))
        counts[met] = counts.get(met, 0) + 1
    names = present.tolist()
    return tuple(
        (count / group_size, tuple((names[code // len(names)], names[code % len(names)]) for code in met))
        for met, count in counts.items()
    )


def sorts_of_chunks(stages: Stages) -> tuple[tuple[tuple[int, ...], ...], list[tuple[int, int]]]:
    """Which chunks of a pipeline hold the same, and one (kind of rank, chunk) of each sort.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline.

    Returns
    -------
    tuple of sorts, ``[rank][chunk]``, and list of (kind, chunk)
    """
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


def slowest_of(meeting_s: Callable[[int, int], Floats]) -> Callable[[tuple[Meeting, ...]], Floats]:
    """How long the slowest of some meetings takes, ``[n]``; each set of them, of which pipelines share many, once.

    Parameters
    ----------
    meeting_s : callable
        Seconds ``[n]`` of a forward of one sort with a backward of another; asked for again and again.

    Returns
    -------
    callable
    """

    @cache
    def slowest(meetings: tuple[Meeting, ...]) -> Floats:
        first, *others = (meeting_s(*meeting) for meeting in meetings)
        for other in others:
            first = np.maximum(first, other)
        return first

    return slowest


def slowest_slots_s(
    sorts: tuple[tuple[int, ...], ...],
    group_size: IntColumn,
    slowest_s: Callable[[tuple[Meeting, ...]], Floats],
    *,
    merged: bool,
) -> Floats:
    """Seconds of a micro batch where in every slot all ranks wait for the slowest, ``[n]``.

    Parameters
    ----------
    sorts : tuple of tuple of int, ``[rank][chunk]``
        Which chunks are alike.
    group_size : IntColumn, ``[n]``
        Micro batches that pass one chunk before the next.
    slowest_s : callable
        What ``slowest_of`` returns.
    merged : bool
        Whether passes are merged in pairs.

    Returns
    -------
    Floats, ``[n]``, seconds a micro batch
    """

    def pace(size: int) -> Floats:
        parts = [share * slowest_s(meetings) for share, meetings in slots_of(sorts, size, merged)]
        total: Floats = sum(parts[1:], parts[0])
        return total

    if (group_size == group_size[0]).all():
        return pace(int(group_size[0]))
    sizes = np.unique(group_size).tolist()
    result: Floats = np.select([group_size == size for size in sizes], [pace(size) for size in sizes])
    return result
