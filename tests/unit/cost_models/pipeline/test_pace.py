"""Slots of the interleaved schedule, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.pipeline.pace import Sorts, slot_table, slots_of, slowest_slots_s, sorts_of_chunks
from cost_models.pipeline.stages import stages_of
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, LayerLayout, ParallelStrategy, Schedule, StrategyBatch
from cost_models.step.priced_groups import PricedGroup, priced_batch
from tests.placements import layouts
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, constants, workload

FORWARD_S = np.array([1.0, 4.0, 3.0, 2.0])  # of four chunks, with backwards of twice as long
UNLIKE = ((0, 1), (2, 3))  # two ranks of two chunks


def meeting_s(forward: int, backward: int) -> Floats:
    return np.array([FORWARD_S[forward] + 2.0 * FORWARD_S[backward]])


def pace_s(sorts: Sorts, group_size: IntColumn, meeting: Callable[[int, int], Floats], *, merged: bool) -> Floats:
    return slowest_slots_s(partial(slot_table, (sorts,), merged=merged), group_size, meeting)[0]


def test_two_ranks_of_two_chunks_meet_in_two_slots() -> None:
    # Groups of two. Rank 0 is four forwards ahead of its backwards (m0 m1 of chunk 0, m0 m1 of chunk 1), rank 1 is two ahead:
    #   slot        1        2        3        4
    #   rank 0   F0m2 B1m0  F0m3 B1m1  F1m2 B0m0  F1m3 B0m1
    #   rank 1   F1m0 B1m0  F1m1 B1m1  F0m2 B0m0  F0m3 B0m1
    # Chunks of rank 0 are of sorts 0 and 1, those of rank 1 of sorts 2 and 3.
    assert slots_of([UNLIKE], 2, merged=False)[0] == ((1.0, ((0, 1), (3, 3))), (1.0, ((1, 0), (2, 2))))


def test_merged_pairs_go_one_forward_further_ahead() -> None:
    # Groups of three: rank 0 is 2 + 3 + 1 = 6 ahead, rank 1 is 4; backwards take chunk 1 three times, then chunk 0.
    #   rank 0   F0B1 F0B1 F0B1 F1B0 F1B0 F1B0
    #   rank 1   F1B1 F1B1 F0B1 F0B0 F0B0 F1B0
    assert slots_of([UNLIKE], 3, merged=True)[0] == (
        (2 / 3, ((0, 1), (3, 3))),
        (1 / 3, ((0, 1), (2, 3))),
        (2 / 3, ((1, 0), (2, 2))),
        (1 / 3, ((1, 0), (3, 2))),
    )


def test_in_every_slot_all_ranks_wait_for_the_slowest() -> None:
    # max(1 + 8, 2 + 4) + max(4 + 2, 3 + 6) = 9 + 9 seconds, where each rank works 3 x (1 + 4) = 3 x (3 + 2) = 15.
    assert pace_s(UNLIKE, np.array([2]), meeting_s, merged=False)[0] == worked("interleaved-slots")


def test_rows_have_the_slots_of_their_own_group() -> None:
    found = pace_s(UNLIKE, np.array([2, 3, 2]), lambda a, b: np.repeat(meeting_s(a, b), 3), merged=True)
    # Of three, as above: 2/3 max(9, 6) + 1/3 max(9, 3 + 4) + 2/3 max(6, 9) + 1/3 max(6, 2 + 6).
    assert found[1] == pytest.approx((2 * 9 + 9 + 2 * 9 + 8) / 3)
    # Of two: rank 0 is 2 + 2 + 1 = 5 ahead, rank 1 is 3.  rank 0  F0B1 F1B1 F1B0 F0B0,  rank 1  F1B1 F0B1 F0B0 F1B0
    assert found[0] == found[2] == pytest.approx((max(9, 6) + max(12, 7) + max(6, 9) + max(3, 8)) / 2)


@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 6), st.booleans())
def test_each_chunk_goes_forward_and_backward_once_a_micro_batch(pp: int, vpp: int, more: int, merged: bool) -> None:
    sorts = tuple(tuple(rank * vpp + chunk for chunk in range(vpp)) for rank in range(pp))
    slots = slots_of([sorts], pp + more, merged=merged)[0]
    assert sum(share for share, _ in slots) == pytest.approx(vpp)
    for passes in range(2):
        seen = np.zeros(pp * vpp)
        for share, meetings in slots:
            for meeting in meetings:
                seen[meeting[passes]] += share
        assert seen == pytest.approx(np.ones(pp * vpp))


@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 6), st.booleans())
def test_where_chunks_are_alike_nobody_waits(pp: int, vpp: int, more: int, merged: bool) -> None:
    found = pace_s(((0,) * vpp,) * pp, np.array([pp + more]), meeting_s, merged=merged)
    assert found == pytest.approx([vpp * 3.0])


@given(data=st.data(), pp=st.integers(2, 4), vpp=st.integers(2, 3), merged=st.booleans())
def test_placements_that_share_a_table_have_the_pace_of_their_own_slots(
    data: st.DataObject, pp: int, vpp: int, merged: bool
) -> None:
    sorts = st.tuples(*[st.tuples(*[st.integers(0, 3)] * vpp)] * pp)
    placements, sizes = (
        data.draw(st.lists(sorts, min_size=1, max_size=4)),
        data.draw(st.lists(st.integers(pp, pp + 3), min_size=1)),
    )
    times_s = np.array([[data.draw(st.floats(0.0, 9.0)) for _ in sizes] for _ in range(16)]).reshape(4, 4, -1)
    table_of = partial(slot_table, placements, merged=merged)
    found = slowest_slots_s(table_of, np.array(sizes), lambda ahead, back: times_s[ahead, back])
    for place, placed in enumerate(placements):
        for row, size in enumerate(sizes):
            slots = slots_of([placed], size, merged=merged)[0]
            worked_s = sum(share * max(times_s[ahead, back, row] for ahead, back in meetings) for share, meetings in slots)
            assert found[place, row] == pytest.approx(worked_s)


def group(layout: LayerLayout) -> PricedGroup:
    job = workload(replace(DENSE, num_layers=sum(map(sum, layout))), global_batch_size=32)
    plan = ParallelStrategy(pp=2, vpp=2, dp=2, schedule=Schedule.INTERLEAVED, layer_layout=layout)
    priced = priced_batch(job, StrategyBatch.of([plan]), constants())
    (found,) = (group for _, group in priced.groups(merge=True, tables=False))
    return found


def test_a_rank_that_is_the_slowest_in_every_slot_sets_the_pace_alone() -> None:
    found = group(((0, 4), (0, 4)))
    assert found.slots_s == pytest.approx(found.rank.whole.max(axis=0), rel=1e-12)


@given(layouts(6, 2, 2))
def test_slots_take_at_least_what_the_slowest_rank_works(layout: LayerLayout) -> None:
    found = group(layout)
    assert found.slots_s is not None
    assert found.slots_s[0] >= found.rank.whole.max(axis=0)[0] * (1 - 1e-12)


def test_a_step_waits_in_slots() -> None:
    # Two layers each rank, but of different chunks: rank 0 has 2 of its first chunk, rank 1 has 2 of its second.
    crossed, even = group(((2, 0), (0, 2))), group(((1, 1), (1, 1)))
    assert crossed.slots_s is not None
    assert even.slots_s is not None
    assert crossed.rank.whole.max() == pytest.approx(even.rank.whole.max(), rel=1e-9)
    assert crossed.slots_s[0] > 1.2 * even.slots_s[0]


def test_chunks_are_alike_when_they_hold_the_same() -> None:
    # Eight layers, the first two dense, on two ranks of two chunks: 0 holds the embedding, 3 the head.
    sorts, examples = sorts_of_chunks(stages_of(SPARSE, 2, 2, ((2, 2), (2, 2))))
    assert sorts == ((0, 1), (1, 2))
    assert examples == [(0, 0), (0, 1), (1, 1)]
    # Embedding and dense, MoE, MoE, head: another count makes another sort.
    assert sorts_of_chunks(stages_of(SPARSE, 2, 2, ((2, 1), (2, 3))))[0] == ((0, 1), (2, 3))
