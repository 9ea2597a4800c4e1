"""Candidate placements of a pipeline: all of them if they are few, else those whose inner virtual stages are even."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from math import comb
from typing import NamedTuple

from cost_models.shapes.strategy import LayerLayout, Placement, Schedule

MOST_COMPLETE = 64  # placements of a pipeline up to which all of them are compared


class Contents(NamedTuple):
    """The facts about the layers that decide which placements can be the best.

    ``leading``: dense layers at the front, which may be shorter than the others. ``head_layers``: the number of layers that take
    as long as the extra work of the last virtual stage, at most. ``mtp_layers``: prediction layers, which may come before it.
    """

    num_layers: int
    leading: int
    head_layers: int
    mtp_layers: int


@lru_cache(maxsize=4096)
def candidate_placements(contents: Contents, pp: int, vpp: int, schedule: Schedule) -> tuple[Placement, ...]:
    """Placements to compare, those first that leave early ranks the fewest layers.

    Embedding and leading dense layers make the first virtual stage unlike the others, head, loss and prediction layers the last
    or the last two. Between them layers are alike, so that no spread is faster than the even one. Layers that are left over go to
    the latest virtual stages: those of one chunk run in the same slots, and late ranks and chunks have fewest micro batches in
    flight. In a V and in DualPipe one rank runs both ends of the model: if the head is heavy, it may hold no layer at either.
    Where the pipeline has ``MOST_COMPLETE`` placements at most (5 layers on 4 ranks: 56), all are compared.

    Parameters
    ----------
    contents : Contents
        Layers and ends that are to be placed.
    pp : int
        Pipeline ranks, at least 2.
    vpp : int
        Chunks of layers on a rank, virtual stages.
    schedule : Schedule
        Order of the passes.

    Returns
    -------
    tuple of Placement
    """
    ends_meet, num_stages = schedule.rules.ends_meet, pp * vpp
    found = dict.fromkeys((counts, 0) for counts in _spreads(contents, num_stages, ends_meet=ends_meet))
    if contents.mtp_layers:
        found |= dict.fromkeys((counts, 1) for counts in _before_head(contents, num_stages, ends_meet=ends_meet))
    if is_complete(contents.num_layers, num_stages):
        found |= dict.fromkeys((counts, 0) for counts in _every(contents.num_layers, num_stages))
        if contents.mtp_layers:
            found |= dict.fromkeys(((*counts, 0), 1) for counts in _every(contents.num_layers, num_stages - 1))
    ordered = sorted(found, key=lambda one: (sum(count * (len(one[0]) - place) for place, count in enumerate(one[0])), one[1]))
    return tuple(Placement(in_chunks(counts, pp), before) for counts, before in ordered)


def is_complete(num_layers: int, num_stages: int) -> bool:
    """Whether all placements of so many layers on so many virtual stages are candidates."""
    return comb(num_layers + num_stages - 1, num_stages - 1) <= MOST_COMPLETE


def _every(num_layers: int, num_stages: int) -> Iterator[tuple[int, ...]]:
    """Layers of each virtual stage, in every way that keeps their order."""
    for cuts in combinations_with_replacement(range(num_layers + 1), num_stages - 1):
        yield tuple(end - begin for begin, end in pairwise((0, *cuts, num_layers)))


def _spreads(contents: Contents, num_stages: int, *, ends_meet: bool) -> Iterator[tuple[int, ...]]:
    """Layers of each virtual stage, even between the first and the last; ``ends_meet``: these two are on one rank."""
    most = -(-contents.num_layers // num_stages)
    shorter = contents.leading if ends_meet else 0  # both ends hold the layers that are short on one of them
    ends = [
        (first, last)
        for last in range(max(0, most - contents.head_layers - 1), most + shorter + 1)
        for first in _firsts(
            contents.num_layers - last,
            contents.leading,
            num_stages - 1,
            shorter + (contents.head_layers if ends_meet and not last else 0),
        )
    ]
    if shorter:
        ends += [(0, last) for last in range(most + shorter + 1, 2 * most + 1)]  # all short layers are on other ranks
    for first, last in ends:
        inside = _even(contents.num_layers - first - last, num_stages - 2, ends_meet=ends_meet)
        if inside is not None:
            yield (first, *inside, last)


def _before_head(contents: Contents, num_stages: int, *, ends_meet: bool) -> Iterator[tuple[int, ...]]:
    """Placements with the prediction layers on the last virtual stage but one, after which no layer may follow.

    A prediction layer takes as long as one or two others, because of its projection and the collectives around that.
    """
    if num_stages == 2:
        yield contents.num_layers, 0
        return
    fewer = contents.leading + contents.head_layers if ends_meet else 0
    for first in _firsts(contents.num_layers, contents.leading, num_stages - 1, fewer):
        for beside in range(contents.mtp_layers, 2 * contents.mtp_layers + 1):
            inside = _even(contents.num_layers - first + beside, num_stages - 2, ends_meet=ends_meet)
            if inside is not None and inside[-1] >= beside:
                yield (first, *inside[:-1], inside[-1] - beside, 0)


def _firsts(layers: int, leading: int, num_stages: int, fewer: int) -> range:
    """Numbers of layers for the first virtual stage: about as many as on the others."""
    return range(max(0, layers // num_stages - 1 - fewer), min(-(-layers // num_stages) + leading, layers) + 1)


def _even(layers: int, count: int, *, ends_meet: bool) -> tuple[int, ...] | None:
    """Layers spread evenly over the virtual stages; ``None`` if there are none.

    Extra layers go to the last ones or, where each rank has two, to the outer ranks, which have the short layers.
    """
    if not count:
        return None if layers else ()
    if ends_meet:
        each, more = divmod(layers, count // 2)
        of_rank = [each + 1] * more + [each] * (count // 2 - more)
        return (*(held // 2 for held in of_rank), *(held - held // 2 for held in reversed(of_rank)))
    each, more = divmod(layers, count)
    return (each,) * (count - more) + (each + 1,) * more


def in_chunks(counts: Sequence[int], pp: int) -> LayerLayout:
    """Layers of virtual stages in the order of the model as ``[chunk][stage]``."""
    return tuple(tuple(counts[first : first + pp]) for first in range(0, len(counts), pp))
