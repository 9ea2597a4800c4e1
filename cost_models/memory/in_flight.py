"""How many micro batches a pipeline rank keeps activations for at its peak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.pipeline.orders import num_warmup_forwards, rank_orders
from cost_models.pipeline.stages import Stages
from cost_models.pipeline.tasks import BACKWARDS, FORWARDS, Pass, PipelineShape, next_places
from cost_models.shapes.strategy import IntColumn, Schedule, StrategyBatch

Floats = NDArray[np.float64]

MOMENTS_AT_ONCE = 16
MOST_TURNS = 1 << 13  # counts of all ranks at some turns: what is kept of them takes 128 MiB at most
MICRO_BATCHES_A_RANK = 8  # of the orders that are counted: more micro batches hold no more at once


class Composition(NamedTuple):
    """Micro batches that a rank holds at some moments; what is 1 long counts for all.

    ``forwards`` ``[moment, chunk, kind, n]`` wait for their backward, ``weights`` likewise for their weight gradient after an
    input gradient of its own. ``losses`` ``[moment, kind, n]`` wait for their backward beside the loss that runs, if any.
    """

    forwards: Floats
    weights: Floats
    losses: Floats

    def each(self) -> Iterator[Composition]:
        """The moments one by one, without their axis.

        Yields
        ------
        Composition, ``[chunk, kind, n]`` and ``[kind, n]``
        """
        weights = np.broadcast_to(self.weights, self.forwards.shape)
        yield from map(Composition, self.forwards, weights, self.losses)


def compositions_in_flight(
    stages: Stages, batch: StrategyBatch, num_microbatches: Floats, *, all_turns: bool
) -> Iterator[Composition]:
    """What a rank holds at the moments that can be its peak.

    Where the chunks of a rank differ, ``all_turns`` also gives the compositions that may be heavier with no more chunks.
    GPipe holds all, losses too. ZB-H1 keeps what 1F1B's first rank holds on every rank, ZB-H2 2 p - 1: what waits for its weight
    gradient is held as well [zero-bubble, sections 2.3 and 4], on later ranks of a kind by more micro batches. The schedules
    of two streams are counted in their orders.

    Parameters
    ----------
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    num_microbatches : Floats, ``[n]``
        Micro batches of a replica in a step.
    all_turns : bool
        Whether the chunks of a rank keep unequal sets.

    Yields
    ------
    Composition
        The moments that can be the peak.

    Raises
    ------
    ValueError
        Micro batches do not fill a schedule that is counted in its orders.
    """
    pp, schedule = stages.pp, stages.schedule
    if schedule in (Schedule.ZBV, Schedule.DUALPIPE, Schedule.DUALPIPE_V):
        forwards, weights, losses = _in_orders(stages.shape(MICRO_BATCHES_A_RANK * pp), stages)
        yield Composition(np.minimum(forwards, num_microbatches), np.minimum(weights, num_microbatches), losses)
    elif schedule is Schedule.GPIPE:
        every = np.broadcast_to(num_microbatches, (1, 1, stages.num_kinds, len(batch)))
        yield Composition(every, np.zeros((1, 1, 1, 1)), (stages.is_last * (num_microbatches - 1.0))[None])
    elif schedule in (Schedule.ZB1P, Schedule.ZB2P):
        last_rank = np.array([[float(ranks[-1])] for ranks in stages.ranks])
        times = 2.0 if schedule is Schedule.ZB2P else 1.0
        held: list[list[Floats]] = []
        waiting: list[list[Floats]] = []
        for rank in (stages.first_rank, last_rank):
            before = np.minimum(times * (pp - 1 - rank) + 1.0, num_microbatches)
            after = np.minimum(times * rank, num_microbatches - before)
            held += [[before], [before - 1.0]]
            waiting += [[after], [after + 1.0]]
        yield Composition(np.array(held), np.array(waiting), np.zeros((len(held), 1, 1)))
    else:
        group = batch.group_size.astype(np.float64)
        ranks, turns = stages.first_rank[:, 0].astype(np.int64), num_turns(stages.vpp) if all_turns else 1
        pairs, of_pair = _numbered(zip(num_microbatches.tolist(), group.tolist(), strict=True))
        at_once = max(1, MOST_TURNS // (stages.vpp * pp))
        for first in range(0, turns, at_once):
            some = first, min(first + at_once, turns)
            of_ranks = [_turns_of_ranks(pp, stages.vpp, m, size, stages.merge_pairs, some) for m, size in pairs]
            forwards = np.stack(of_ranks, axis=-1)[:, :, ranks[:, None], of_pair]  # [turn, chunk, kind, n]
            yield Composition(forwards, np.zeros((1, 1, 1, 1)), np.zeros((len(forwards), 1, 1)))
        if schedule is Schedule.INTERLEAVED:
            yield from _with_short_last_group(stages, num_microbatches, group)


def _numbered(found: Iterable[tuple[float, float]]) -> tuple[list[tuple[float, float]], list[int]]:
    """What is distinct of the given, and which of it each is."""
    numbers: dict[tuple[float, float], int] = {}
    index = [numbers.setdefault(one, len(numbers)) for one in found]
    return list(numbers), index


def _in_orders(shape: PipelineShape, stages: Stages) -> Composition:
    """Compositions counted in the orders of a pipeline, ``[moment, chunk, kind, 1]``."""
    of_kind = [_heaviest(shape, ranks) for ranks in stages.ranks]
    turns, chunks = range(max(map(len, of_kind))), stages.num_chunks
    counts = np.array([[found[min(turn, len(found) - 1)] for found in of_kind] for turn in turns], dtype=np.float64)
    by_chunk = counts.swapaxes(1, 2)[..., None]
    return Composition(by_chunk[:, :chunks], by_chunk[:, chunks : 2 * chunks], by_chunk[:, -1])


FULL_GROUPS = 4  # fill, two periods, and the group before the last


def _with_short_last_group(stages: Stages, num_microbatches: Floats, group: Floats) -> Iterator[Composition]:
    """What a last group that is not full adds to ``chunks_in_flight``: turns of its own; zero for all others."""
    rest = num_microbatches % group
    short = np.flatnonzero(rest > 0)
    if not len(short):
        return
    played = rest + group * np.minimum(num_microbatches // group, FULL_GROUPS)
    pairs, of_pair = _numbered(zip(played[short].tolist(), group[short].tolist(), strict=True))
    found = [_in_orders(stages.shape(int(m), int(size)), stages) for m, size in pairs]
    moments = max(len(one.losses) for one in found)
    for first in range(0, moments, MOMENTS_AT_ONCE):
        turns = np.arange(first, min(first + MOMENTS_AT_ONCE, moments))
        columns = []
        for parts in zip(*found, strict=True):
            of_pairs = np.concatenate([part[np.minimum(turns, len(part) - 1)] for part in parts], axis=-1)
            spread = np.zeros((*of_pairs.shape[:-1], len(group)))
            spread[..., short] = of_pairs[..., of_pair]
            columns.append(spread)
        yield Composition(*columns)


def moments(shape: PipelineShape, rank: int) -> Iterator[tuple[int, ...]]:
    """Counts of ``Composition`` in one line while each task of a rank runs, and once an input gradient has ended.

    The loss is a forward's last work and a backward's first, so that a merged pair runs one after the other.

    Parameters
    ----------
    shape : PipelineShape
        Schedule, ranks, chunks and micro batches.
    rank : int
        Pipeline rank, 0 for the first.

    Yields
    ------
    tuple of int, ``[2 chunks + 1]``
        Forwards by chunk, waiting weight gradients by chunk, losses.
    """
    chunks = shape.num_chunks
    following = next_places(shape)
    losses = 2 * chunks
    held = [0] * (2 * chunks + 1)
    for task in rank_orders(shape)[rank]:
        back, _ = task.backward
        begins = task.kind in FORWARDS
        if task.kind in BACKWARDS and (rank, back) not in following:
            held[losses] -= 1
        if begins:
            held[task.chunk] += 1
        yield tuple(held)
        if task.kind is Pass.INPUT_GRADIENT:
            held[back] -= 1
            held[chunks + back] += 1
            yield tuple(held)
        elif task.kind is Pass.WEIGHT_GRADIENT:
            held[chunks + back] -= 1
        elif task.kind is not Pass.FORWARD:
            held[back] -= 1
        if begins and (rank, task.chunk) not in following:
            held[losses] += 1


@lru_cache(maxsize=1024)
def _heaviest(shape: PipelineShape, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """``moments`` of any of the ranks, but for those that another exceeds."""
    return _unexceeded({held for rank in ranks for held in _heaviest_of(shape, rank)})


@lru_cache(maxsize=4096)
def _heaviest_of(shape: PipelineShape, rank: int) -> tuple[tuple[int, ...], ...]:
    """Of one rank, which ranks of one kind share with those of another."""
    found = _turns_taken(shape, rank) if shape.schedule is Schedule.INTERLEAVED else moments(shape, rank)
    return _unexceeded(set(found))


def _turns_taken(shape: PipelineShape, rank: int) -> list[tuple[int, ...]]:
    """``moments`` of the interleaved schedule at which a forward or a backward goes on to another chunk.

    Between two of these every count grows or falls evenly, so that none is heavier than both. ``f`` is the forward that runs, or
    ran last, beside the first f - w - 1 backwards, of which the next may have begun; before it there are only fewer, and behind
    the last forward as well.
    """
    m, vpp, group = shape.num_microbatches, shape.vpp, shape.group_size or shape.pp
    n, w = m * vpp, num_warmup_forwards(shape, rank)
    first = np.arange(0, m, group)
    ends = (first[:, None] * vpp + np.minimum(group, m - first)[:, None] * np.arange(1, vpp + 1)).ravel()
    f = np.unique(np.clip(np.concatenate([ends, ends + 1, ends + w, ends + w + 1, [w + 1]]), min(w + 1, n), n))
    chunk, group_size, micro_batches = np.arange(vpp), np.array(float(group)), np.array(float(m))

    def passed(count: IntColumn, of_chunk: IntColumn | int) -> Floats:
        return _passed(np.clip(count, 0, n).astype(np.float64), np.asarray(of_chunk), group_size, vpp, micro_batches)

    held = passed(f[:, None], chunk) - passed(f[:, None] - w - 1, vpp - 1 - chunk)
    has_loss = rank == shape.pp - 1
    begins = has_loss * (passed(f - 1, vpp - 1) - passed(f - w - (0 if shape.merge_pairs else 1), 0))
    ended = has_loss * (passed(f, vpp - 1) - passed(np.maximum(f - w, 1), 0))
    if shape.merge_pairs:  # the last forward before the pairs, and the first backward behind them
        alone, backwards, behind = np.array([[w, n], [0, n - w], [0, n - w + 1]])
        held = np.concatenate([held, passed(alone[:, None], chunk) - passed(backwards[:, None], vpp - 1 - chunk)])
        of_alone = has_loss * (passed(np.array([w - 1, n]), vpp - 1) - passed(behind, 0))
        losses = [np.concatenate([begins, of_alone])]
    else:
        losses = [begins, ended]
    none = np.zeros_like(held)
    return [tuple(row) for each in losses for row in np.column_stack([held, none, each]).astype(np.int64).tolist()]


def _unexceeded(found: set[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Those that hold more of something than any other, the heaviest first."""
    table = np.array(sorted(found, key=sum, reverse=True))  # nothing is exceeded by what comes behind it
    heaviest: list[tuple[int, ...]] = []
    while len(table):
        heaviest.append(tuple(table[0].tolist()))
        table = table[(table > table[0]).any(axis=1)]
    return tuple(sorted(heaviest, key=lambda held: (-sum(held[:-1]), held)))


def chunks_in_flight(
    rank: ArrayLike,
    chunk: ArrayLike,
    pp: int,
    vpp: int,
    num_microbatches: ArrayLike,
    turn: ArrayLike = 0,
    group_size: ArrayLike | None = None,
    *,
    merged: bool = False,
) -> Floats:
    """Forwards of one chunk held on a rank at its peak, 1F1B or interleaved. Shapes broadcast.

    1F1B: min(m, p - i). Interleaved: the first w + 1 of the rank's forwards, w = 2 (p - 1 - i) + (v - 1) g, at most
    m v, which run through the chunks in groups of g micro batches (default p), the last group of what is left
    [megatron-0.12, schedules.py]. ``merged`` pairs hold one more [mindspeed, vpp_schedules.py]. Without a pipeline: 1.

    From then on a backward frees a chunk for every forward, last chunk first: the number held stays, its composition
    moves. ``turn`` 1 to ``num_turns(vpp) - 1`` gives the compositions at which it changes course.

    Parameters
    ----------
    rank : array
        Pipeline ranks, i.
    chunk : array
        Chunks of layers on the rank, 0 for its first virtual stage.
    pp : int
        Pipeline ranks.
    vpp : int
        Chunks of layers on a rank, virtual stages.
    num_microbatches : array
        Micro batches of a replica in a step, m.
    turn : array
        0 for the first moment of the peak, up to ``num_turns(vpp) - 1``.
    group_size : array or None
        Micro batches that pass one chunk before the next, g; ``None``: pp.
    merged : bool
        Whether passes are merged in pairs.

    Returns
    -------
    Floats, broadcast
        Micro batches whose activations of that chunk the rank holds.
    """
    i, m = np.asarray(rank, dtype=np.float64), np.asarray(num_microbatches, dtype=np.float64)
    g = np.asarray(pp if group_size is None else group_size, dtype=np.float64)
    if vpp == 1:
        return np.minimum(m, pp - i + merged)
    held = np.minimum(m * vpp, 2.0 * (pp - 1 - i) + (vpp - 1) * g + 1 + merged)
    turn, chunk = np.asarray(turn), np.asarray(chunk)
    later = held + g * (turn // 2)
    forwards = np.minimum(np.where(turn % 2 == 0, later, np.ceil(later / g) * g), m * vpp)
    forward, backward = _passed(forwards, chunk, g, vpp, m), _passed(forwards - held, vpp - 1 - chunk, g, vpp, m)
    return forward - backward


@lru_cache(maxsize=2048)
def _turns_of_ranks(
    pp: int, vpp: int, num_microbatches: float, group_size: float, merged: bool, turns: tuple[int, int]
) -> Floats:
    """``chunks_in_flight`` of every rank, ``[turn, chunk, rank]``: the same wherever layers lie."""
    turn, chunk, rank = np.arange(*turns)[:, None, None], np.arange(vpp)[:, None], np.arange(float(pp))
    held = chunks_in_flight(rank, chunk, pp, vpp, num_microbatches, turn, group_size, merged=merged)
    return np.broadcast_to(held, (len(turn), vpp, pp))


def num_turns(vpp: int) -> int:
    """Compositions that ``chunks_in_flight`` distinguishes.

    Parameters
    ----------
    vpp : int
        Chunks of layers on a rank, virtual stages.

    Returns
    -------
    int
        1 without virtual stages.
    """
    return 2 * vpp + 2 if vpp > 1 else 1


def _passed(count: Floats, chunk: IntColumn, group_size: Floats, vpp: int, num_microbatches: Floats) -> Floats:
    """Of the first ``count`` passes of a rank, those of one chunk."""
    whole, rest = np.divmod(count, group_size * vpp)
    group = np.minimum(group_size, num_microbatches - whole * group_size)
    passed: Floats = whole * group_size + np.clip(rest - chunk * group, 0, group)
    return passed
