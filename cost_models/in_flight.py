"""How many micro batches a pipeline rank keeps activations for at its peak."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.simulation.orders import rank_orders
from cost_models.simulation.tasks import Pass, PipelineShape
from cost_models.stages import Stages
from cost_models.strategy import Schedule, StrategyBatch

Floats = NDArray[np.float64]


def compositions_in_flight(
    stages: Stages, batch: StrategyBatch, num_microbatches: Floats, *, all_turns: bool
) -> Iterator[list[Floats]]:
    """Forwards of each chunk that a rank holds at its peak, ``[chunk]`` of ``[kind, n]``.

    Where the chunks of a rank differ, ``all_turns`` also gives the compositions that may be heavier with no more chunks.
    GPipe holds all. ZB-H1 keeps what 1F1B's first rank holds on every rank, ZB-H2 2 p - 1: what waits for its weight
    gradient is held as well [zero-bubble, sections 2.3 and 4]. The schedules of two streams are counted in their orders.
    """
    pp, schedule = stages.pp, stages.schedule
    if schedule in (Schedule.ZBV, Schedule.DUALPIPE, Schedule.DUALPIPE_V):
        shape = PipelineShape(schedule, pp, stages.vpp, 8 * pp, 0, stages.merge_pairs, stages.detach_weight_gradients)
        for chosen in _in_orders(shape, stages):
            yield [np.minimum(held, num_microbatches) for held in chosen]
    elif schedule in (Schedule.GPIPE, Schedule.ZB1P, Schedule.ZB2P):
        most = {Schedule.GPIPE: np.inf, Schedule.ZB1P: pp, Schedule.ZB2P: 2 * pp - 1}[schedule]
        yield [np.broadcast_to(np.minimum(num_microbatches, most), (stages.num_kinds, len(batch)))]
    else:
        group = batch.group_size.astype(np.float64)
        for turn in range(num_turns(stages.vpp) if all_turns else 1):
            yield [
                chunks_in_flight(
                    stages.first_rank, chunk, pp, stages.vpp, num_microbatches, turn, group, merged=stages.merge_pairs
                )
                for chunk in range(stages.vpp)
            ]
        if all_turns:
            yield from _with_short_last_group(stages, num_microbatches, group)


def _in_orders(shape: PipelineShape, stages: Stages) -> Iterator[list[Floats]]:
    """Compositions counted in the orders of a pipeline, ``[chunk]`` of ``[kind, 1]``."""
    of_kind = [_heaviest(shape, ranks) for ranks in stages.ranks]
    for turn in range(max(map(len, of_kind))):
        chosen = np.array([found[min(turn, len(found) - 1)] for found in of_kind], dtype=np.float64)
        yield [chosen[:, chunk, None] for chunk in range(stages.num_chunks)]


FULL_GROUPS = 4  # fill, two periods, and the group before the last


def _with_short_last_group(stages: Stages, num_microbatches: Floats, group: Floats) -> Iterator[list[Floats]]:
    """What a last group that is not full adds to ``chunks_in_flight``: turns of its own; zero for all others."""
    rest = num_microbatches % group
    played = rest + group * np.minimum(num_microbatches // group, FULL_GROUPS)
    for m, size in sorted(set(zip(played[rest > 0].tolist(), group[rest > 0].tolist(), strict=True))):
        here = np.where((rest > 0) & (played == m) & (group == size), 1.0, 0.0)
        shape = PipelineShape(Schedule.INTERLEAVED, stages.pp, stages.vpp, int(m), int(size), stages.merge_pairs)
        for chosen in _in_orders(shape, stages):
            yield [held * here for held in chosen]


@lru_cache(maxsize=1024)
def _heaviest(shape: PipelineShape, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Numbers of chunks held on any of the ranks, in the order of the schedule, but for those that another exceeds."""
    found: set[tuple[int, ...]] = set()
    orders = rank_orders(shape)
    for rank in ranks:
        held = [0] * shape.num_chunks
        for task in orders[rank]:
            if task.kind in (Pass.FORWARD, Pass.PAIR):
                held[task.chunk] += 1
                found.add(tuple(held))
            if task.kind in (Pass.BACKWARD, Pass.WEIGHT_GRADIENT, Pass.PAIR):
                held[task.backward_chunk if task.kind is Pass.PAIR else task.chunk] -= 1
    heaviest = [one for one in found if not any(o != one and all(a >= b for a, b in zip(o, one, strict=True)) for o in found)]
    return tuple(sorted(heaviest, key=lambda held: (-sum(held), held)))


def chunks_in_flight(
    rank: ArrayLike,
    chunk: int,
    pp: int,
    vpp: int,
    num_microbatches: ArrayLike,
    turn: int = 0,
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
    """
    i, m = np.asarray(rank, dtype=np.float64), np.asarray(num_microbatches, dtype=np.float64)
    g = np.asarray(pp if group_size is None else group_size, dtype=np.float64)
    if vpp == 1:
        return np.minimum(m, pp - i + merged)
    held = np.minimum(m * vpp, 2.0 * (pp - 1 - i) + (vpp - 1) * g + 1 + merged)
    later = held + g * (turn // 2)
    forwards = np.minimum(later if turn % 2 == 0 else np.ceil(later / g) * g, m * vpp)
    forward, backward = _passed(forwards, chunk, g, vpp, m), _passed(forwards - held, vpp - 1 - chunk, g, vpp, m)
    return forward - backward


def num_turns(vpp: int) -> int:
    """Compositions that ``chunks_in_flight`` distinguishes."""
    return 2 * vpp + 2 if vpp > 1 else 1


def _passed(count: Floats, chunk: int, group_size: Floats, vpp: int, num_microbatches: Floats) -> Floats:
    """Of the first ``count`` passes of a rank, those of one chunk."""
    whole, rest = np.divmod(count, group_size * vpp)
    group = np.minimum(group_size, num_microbatches - whole * group_size)
    passed: Floats = whole * group_size + np.clip(rest - chunk * group, 0, group)
    return passed
