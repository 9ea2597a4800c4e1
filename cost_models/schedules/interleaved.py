"""Interleaved 1F1B: a rank holds several chunks, and groups of micro batches pass through one chunk after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cost_models.schedules.in_flight import Counts, heaviest_compositions
from cost_models.schedules.one_f_one_b import (
    held_in_turns,
    num_warmup_forwards,
    numbered,
    one_forward_one_backward,
    passed,
    unmerged,
)
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

MOMENTS_AT_ONCE = 16
FULL_GROUPS = 4  # fill, two periods, and the group before the last


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """(F + B) / v [narayanan2021, section 2.2]."""
    return (seconds.forward + seconds.backward) / pipeline.vpp


def _in_flight(ranks: Ranks, num_microbatches: Floats, group_size: IntColumn, all_turns: bool) -> Iterator[Composition]:
    yield from held_in_turns(ranks, num_microbatches, group_size, all_turns)
    yield from _with_short_last_group(ranks, num_microbatches, group_size.astype(np.float64))


def _with_short_last_group(ranks: Ranks, num_microbatches: Floats, group: Floats) -> Iterator[Composition]:
    """The compositions that a last group adds if it is not full; zero for strategies whose last group is full."""
    rest = num_microbatches % group
    short = np.flatnonzero(rest > 0)
    if not len(short):
        return
    played = rest + group * np.minimum(num_microbatches // group, FULL_GROUPS)
    pairs, of_pair = numbered(zip(played[short].tolist(), group[short].tolist(), strict=True))
    found = [heaviest_compositions(ranks.shape(int(m), int(size)), ranks, turns_taken) for m, size in pairs]
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


def turns_taken(shape: PipelineShape, rank: int) -> list[Counts]:
    """``in_flight.moments`` at which a forward or a backward moves to another chunk.

    Between two of these every count grows or falls evenly, so no moment between is heavier than both. ``f`` is the running
    forward, or the last one, together with the first f - h backwards, of which the next may have started; h is the number held,
    w + 1. A merged pair goes from one such moment to the next, layer by layer. Before the first a rank holds less, and after the
    last forward too.
    """
    m, vpp, group = shape.num_microbatches, shape.vpp, shape.group_size or shape.pp
    n, h = m * vpp, num_warmup_forwards(replace(shape, merge_pairs=False), rank) + 1
    first = np.arange(0, m, group)
    ends = (first[:, None] * vpp + np.minimum(group, m - first)[:, None] * np.arange(1, vpp + 1)).ravel()
    f = np.unique(np.clip(np.concatenate([ends, ends + 1, ends + h - 1, ends + h, [h]]), min(h, n), n))
    chunk, group_size, micro_batches = np.arange(vpp), np.array(float(group)), np.array(float(m))

    def of_chunk(count: IntColumn, chunk: IntColumn | int) -> Floats:
        return passed(np.clip(count, 0, n).astype(np.float64), np.asarray(chunk), group_size, vpp, micro_batches)

    held = of_chunk(f[:, None], chunk) - of_chunk(f[:, None] - h, vpp - 1 - chunk)
    has_loss = rank == shape.pp - 1
    begins = has_loss * (of_chunk(f - 1, vpp - 1) - of_chunk(f - h, 0))
    ended = has_loss * (of_chunk(f, vpp - 1) - of_chunk(np.maximum(f - h + 1, 1), 0))
    none = np.zeros_like(held)
    return [tuple(row) for each in (begins, ended) for row in np.column_stack([held, none, each]).astype(np.int64).tolist()]


RULES = ScheduleRules(
    label="interleaved-1f1b",
    source="[narayanan2021, section 2.2; megatron-0.12, schedules.py]",
    chunks="several",
    usual=True,
    tried="always",
    num_streams=1,
    is_vee=False,
    in_groups=True,
    splits_backward=False,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=Pairs(of_other_chunk=False, wait=False, unmerged=unmerged),
    fewest_microbatches=Fewest(a_rank=1, more=0),
    orders=one_forward_one_backward,
    bubble_share_s=_bubble_share_s,
    in_flight=_in_flight,
)
