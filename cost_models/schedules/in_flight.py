"""Micro batches that a rank keeps activations for, counted in the order of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from cost_models.schedules.orders import next_places, rank_orders
from cost_models.schedules.schedule import Composition, Floats, IntColumn, PipelineShape, Ranks
from cost_models.schedules.tasks import BACKWARDS, FORWARDS, Pass

MICRO_BATCHES_A_RANK = 8  # micro batches in the counted orders: more micro batches hold no more at once
Counts = tuple[int, ...]  # fields of ``Composition`` in one line: forwards by chunk, waiting weight gradients by chunk, losses
Moments = Callable[[PipelineShape, int], Iterable[Counts]]  # function from a pipeline and a rank to counts


def moments(shape: PipelineShape, rank: int) -> Iterator[tuple[int, ...]]:
    """Counts of ``Composition`` in one line while each task of a rank runs, and once an input gradient has ended.

    A merged pair goes layer by layer from the chunks before it to those after it [mindspeed-fb-overlap, transformer_block.py].
    Published counts of two streams have both of its chunks [deepseek-v3, table 2]. The loss is a forward's last work and a
    backward's first.
    """
    chunks = shape.num_chunks
    following = next_places(shape)
    losses = 2 * chunks
    held = [0] * (2 * chunks + 1)
    for task in rank_orders(shape)[rank]:
        back, _ = task.backward
        begins, swaps = task.kind in FORWARDS, task.kind is Pass.PAIR and shape.schedule.rules.num_streams == 1
        if task.kind in BACKWARDS and (rank, back) not in following:
            held[losses] -= 1
        if swaps:
            yield tuple(held)
            held[back] -= 1
        if begins:
            held[task.chunk] += 1
        yield tuple(held)
        if task.kind is Pass.INPUT_GRADIENT:
            held[back] -= 1
            held[chunks + back] += 1
            yield tuple(held)
        elif task.kind is Pass.WEIGHT_GRADIENT:
            held[chunks + back] -= 1
        elif task.kind is not Pass.FORWARD and not swaps:
            held[back] -= 1
        if begins and (rank, task.chunk) not in following:
            held[losses] += 1


def counted_in_order(ranks: Ranks, num_microbatches: Floats, group_size: IntColumn, all_turns: bool) -> Iterator[Composition]:
    """Rule ``in_flight`` of a schedule whose peak has no closed form; raises ``ValueError`` for streams that cannot share pp."""
    forwards, weights, losses = heaviest_compositions(ranks.shape(MICRO_BATCHES_A_RANK * ranks.pp), ranks, moments)
    yield Composition(np.minimum(forwards, num_microbatches), np.minimum(weights, num_microbatches), losses)


def heaviest_compositions(shape: PipelineShape, ranks: Ranks, counted: Moments) -> Composition:
    """Compositions, ``[moment, chunk, kind, 1]``, that no other composition of the same kind of rank exceeds."""
    of_kind = [_heaviest(shape, of_ranks, counted) for of_ranks in ranks.ranks]
    turns, chunks = range(max(map(len, of_kind))), ranks.num_chunks
    counts = np.array([[found[min(turn, len(found) - 1)] for found in of_kind] for turn in turns], dtype=np.float64)
    by_chunk = counts.swapaxes(1, 2)[..., None]
    return Composition(by_chunk[:, :chunks], by_chunk[:, chunks : 2 * chunks], by_chunk[:, -1])


@lru_cache(maxsize=1024)
def _heaviest(shape: PipelineShape, ranks: tuple[int, ...], counted: Moments) -> tuple[Counts, ...]:
    return unexceeded({held for rank in ranks for held in _heaviest_of(shape, rank, counted)})


@lru_cache(maxsize=4096)
def _heaviest_of(shape: PipelineShape, rank: int, counted: Moments) -> tuple[Counts, ...]:
    """Counts of one rank; kinds of ranks share them."""
    return unexceeded(set(counted(shape, rank)))


def unexceeded(found: set[Counts]) -> tuple[Counts, ...]:
    """The counts that no other exceeds in every part, the heaviest first."""
    table = np.array(sorted(found, key=sum, reverse=True))  # no row is exceeded by a later row
    heaviest: list[Counts] = []
    while len(table):
        heaviest.append(tuple(table[0].tolist()))
        table = table[(table > table[0]).any(axis=1)]
    return tuple(sorted(heaviest, key=lambda held: (-sum(held[:-1]), held)))
