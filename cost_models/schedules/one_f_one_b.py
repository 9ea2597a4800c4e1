"""1F1B: after the warm-up every rank runs a forward and a backward in turn.

The formulas hold for several chunks on a rank as well, which is the interleaved schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from cost_models.schedules.schedule import (
    Composition,
    Fewest,
    Floats,
    IntColumn,
    Pairs,
    PassSeconds,
    Pipeline,
    PipelineShape,
    Ranks,
    ScheduleRules,
)
from cost_models.schedules.tasks import Numbers, Pass, Tables, tasks_of_kind

MOST_TURNS = 1 << 13  # counts of all ranks at some turns: the cache of them takes 128 MiB at most


def chunk_sequence(shape: PipelineShape) -> tuple[Numbers, Numbers]:
    """Chunk and micro batch of every forward of a rank, in order [megatron-0.12, schedules.py].

    A group of micro batches passes through all chunks, one chunk after the other; the last group may be smaller.
    """
    group, m = shape.group_size or shape.pp, shape.num_microbatches
    forward = np.arange(m * shape.vpp)
    first = forward // (group * shape.vpp) * group
    chunk, place = np.divmod(forward - first * shape.vpp, np.minimum(group, m - first))
    return chunk, first + place


def num_warmup_forwards(shape: PipelineShape, rank: int) -> int:
    """Forwards before the first backward, one fewer than a rank holds at its peak [megatron-0.12, schedules.py].

    Merged pairs need one more, and then as many as a rank holds: their backward cannot be that of a forward of the same pair
    [mindspeed, vpp_schedules.py; megatron-0.19, schedules.py].
    """
    if shape.vpp == 1:
        count = shape.pp - 1 - rank
    else:
        count = 2 * (shape.pp - 1 - rank) + (shape.vpp - 1) * (shape.group_size or shape.pp)
    return min(count + shape.merge_pairs, shape.num_microbatches * shape.vpp)


def one_forward_one_backward(shape: PipelineShape) -> Tables:
    """Warm-up forwards, then a forward and a backward in turn, then the remaining backwards."""
    chunk, micro_batch = chunk_sequence(shape)
    forwards = tasks_of_kind(Pass.FORWARD, chunk, micro_batch)
    backwards = tasks_of_kind(Pass.BACKWARD, shape.vpp - 1 - chunk, micro_batch)
    orders = []
    for rank in range(shape.pp):
        warmup = num_warmup_forwards(shape, rank)
        turns = len(forwards) - warmup
        if shape.merge_pairs:
            steady = np.concatenate([forwards[warmup:, :3], backwards[:turns, 1:3]], axis=1)
            steady[:, 0] = Pass.PAIR
        else:
            steady = np.stack([forwards[warmup:], backwards[:turns]], axis=1).reshape(-1, forwards.shape[1])
        orders.append(np.concatenate([forwards[:warmup], steady, backwards[turns:]]))
    return tuple(orders)


def unmerged(pipeline: Pipeline, group_size: IntColumn | int) -> Floats | float:
    """The rule ``Pairs.unmerged``, ``[n]`` passes: the warm-up of the last rank, and the pass that follows it."""
    return 1.0 + (pipeline.vpp - 1) * np.asarray(group_size, dtype=np.float64)


def chunks_in_flight(
    rank: ArrayLike,
    chunk: ArrayLike,
    pp: int,
    vpp: int,
    num_microbatches: ArrayLike,
    turn: ArrayLike = 0,
    group_size: ArrayLike | None = None,
) -> Floats:
    """Forwards of one chunk that a rank holds at its peak; elementwise.

    One chunk: min(m, p - i). Several: the first w + 1 of the rank's forwards, w = 2 (p - 1 - i) + (v - 1) g, at most m v. They
    run through the chunks in groups of g micro batches, the last group smaller [megatron-0.12, schedules.py]. Without a
    pipeline: 1. Merged pairs hold as many: their w + 1 warm-up forwards are all of them, since a pair keeps a layer's forward as
    it frees a layer's backward [megatron-0.19, model_chunk_schedule_plan.py].

    From then on a backward frees a chunk for every forward, last chunk first. The number held is constant, but its composition
    changes. ``turn`` 1 to ``num_turns(vpp) - 1`` gives the compositions at which the change moves to another chunk.

    Parameters
    ----------
    rank
        Pipeline ranks, i.
    chunk
        Chunks on the rank, 0 for its first virtual stage.
    num_microbatches
        Micro batches of a replica in a step, m.
    turn
        0 for the first moment of the peak.
    group_size
        Micro batches that pass one chunk before the next, g; ``None``: pp.
    """
    i, m = np.asarray(rank, dtype=np.float64), np.asarray(num_microbatches, dtype=np.float64)
    g = np.asarray(pp if group_size is None else group_size, dtype=np.float64)
    if vpp == 1:
        return np.minimum(m, pp - i)
    held = np.minimum(m * vpp, 2.0 * (pp - 1 - i) + (vpp - 1) * g + 1)
    turn, chunk = np.asarray(turn), np.asarray(chunk)
    later = held + g * (turn // 2)
    forwards = np.minimum(np.where(turn % 2 == 0, later, np.ceil(later / g) * g), m * vpp)
    forward, backward = passed(forwards, chunk, g, vpp, m), passed(forwards - held, vpp - 1 - chunk, g, vpp, m)
    return forward - backward


def num_turns(vpp: int) -> int:
    """Compositions that ``chunks_in_flight`` distinguishes."""
    return 2 * vpp + 2 if vpp > 1 else 1


def held_in_turns(ranks: Ranks, num_microbatches: Floats, group_size: IntColumn, all_turns: bool) -> Iterator[Composition]:
    """The rule ``in_flight``, if the last group of micro batches is full. Yields ``[turn, chunk, kind, n]``.

    Parameters
    ----------
    num_microbatches, group_size : ``[n]``
    all_turns
        Give all compositions of the peak, not the first alone.
    """
    group = group_size.astype(np.float64)
    first_ranks, turns = ranks.first_rank[:, 0].astype(np.int64), num_turns(ranks.vpp) if all_turns else 1
    pairs, of_pair = numbered(zip(num_microbatches.tolist(), group.tolist(), strict=True))
    at_once = max(1, MOST_TURNS // (ranks.vpp * ranks.pp))
    for first in range(0, turns, at_once):
        some = first, min(first + at_once, turns)
        of_ranks = [_turns_of_ranks(ranks.pp, ranks.vpp, m, size, some) for m, size in pairs]
        forwards = np.stack(of_ranks, axis=-1)[:, :, first_ranks[:, None], of_pair]
        yield Composition(forwards, np.zeros((1, 1, 1, 1)), np.zeros((len(forwards), 1, 1)))


def numbered(found: Iterable[tuple[float, float]]) -> tuple[list[tuple[float, float]], list[int]]:
    """The distinct pairs, and the index of each given pair among them."""
    numbers: dict[tuple[float, float], int] = {}
    index = [numbers.setdefault(one, len(numbers)) for one in found]
    return list(numbers), index


@lru_cache(maxsize=2048)
def _turns_of_ranks(pp: int, vpp: int, num_microbatches: float, group_size: float, turns: tuple[int, int]) -> Floats:
    """``chunks_in_flight`` of every rank, ``[turn, chunk, rank]``; the placement of layers does not matter."""
    turn, chunk, rank = np.arange(*turns)[:, None, None], np.arange(vpp)[:, None], np.arange(float(pp))
    held = chunks_in_flight(rank, chunk, pp, vpp, num_microbatches, turn, group_size)
    return np.broadcast_to(held, (len(turn), vpp, pp))


def passed(count: Floats, chunk: IntColumn, group_size: Floats, vpp: int, num_microbatches: Floats) -> Floats:
    """Passes of one chunk among the first ``count`` passes of a rank; elementwise.

    ``chunk`` is its place in the order of passes.
    """
    whole, rest = np.divmod(count, group_size * vpp)
    group = np.minimum(group_size, num_microbatches - whole * group_size)
    found: Floats = whole * group_size + np.clip(rest - chunk * group, 0, group)
    return found


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """F + B [narayanan2021, section 2.2]."""
    return seconds.forward + seconds.backward


RULES = ScheduleRules(
    label="1f1b",
    source="[narayanan2021, section 2.2; megatron-0.12, schedules.py]",
    chunks="one",
    usual=True,
    tried="always",
    num_streams=1,
    is_vee=False,
    in_groups=False,
    splits_backward=False,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=Pairs(of_other_chunk=False, wait=True, unmerged=unmerged),
    fewest_microbatches=Fewest(a_rank=0, more=1),
    orders=one_forward_one_backward,
    bubble_share_s=_bubble_share_s,
    in_flight=held_in_turns,
)
