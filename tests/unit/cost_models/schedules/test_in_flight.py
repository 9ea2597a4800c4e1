"""Chunks in flight against the schedules themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.pipeline.stages import stages_of
from cost_models.schedules.in_flight import unexceeded
from cost_models.schedules.interleaved import turns_taken
from cost_models.schedules.one_f_one_b import chunks_in_flight
from cost_models.schedules.orders import next_places, rank_orders
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from tests.oracle.event_loop import held_at_peak
from tests.oracle.schedules import rule_of
from tests.pipelines import oracle_rule, shape, shapes
from tests.worked_examples import worked
from tests.workloads import DENSE


def held(rank: int, pp: int, vpp: int, num_microbatches: int) -> list[int]:
    return [int(chunks_in_flight(rank, chunk, pp, vpp, num_microbatches)) for chunk in range(vpp)]


def test_without_a_pipeline_one() -> None:
    assert held(0, 1, 1, 64) == [1]


@pytest.mark.parametrize(
    ("rank", "micro_batches", "expected"), [(0, 8, 4), (1, 8, 3), (3, 8, 1), (0, 2, 2), (2, 2, 2), (3, 2, 1)]
)
def test_1f1b_of_four_ranks(rank: int, micro_batches: int, expected: int) -> None:
    assert held(rank, 4, 1, micro_batches) == [expected]


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (0, [7, 4]),  # 2 x 3 + 4 + 1 = 11 forwards: four of each chunk, three more of the first
        (1, [5, 4]),
        (2, [4, 3]),
        (3, [4, 1]),
    ],
)
def test_two_chunks_on_each_of_four_ranks(rank: int, expected: list[int]) -> None:
    assert held(rank, 4, 2, 16) == expected


def test_worked_chunks_of_pangu_ultra_moe() -> None:
    assert sum(held(0, 16, 2, 64)) == worked("chunks-in-flight")


def test_a_short_step_never_fills_the_pipeline() -> None:
    assert held(0, 4, 2, 4) == [4, 4]


def test_a_last_group_that_is_not_full() -> None:
    # Six micro batches on four ranks: chunks run 4, 4, then 2, 2; eleven forwards are 4 + 2 and 4 + 1.
    assert held(0, 4, 2, 6) == [6, 5]


@given(pp=st.integers(2, 8), vpp=st.integers(1, 5), groups=st.integers(1, 5), data=st.data())
def test_the_schedule_holds_as_many(pp: int, vpp: int, groups: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, pp - 1))
    short = data.draw(st.integers(0, pp - 1)) if vpp == 1 else 0
    micro_batches = groups * pp + short
    program = rule_of("interleaved-1f1b", pp, vpp, micro_batches).program(rank)
    assert held(rank, pp, vpp, micro_batches) == held_at_peak(program, vpp)


def test_later_ranks_hold_less_and_columns_broadcast() -> None:
    ranks = np.arange(8.0)[:, None]
    counts = chunks_in_flight(ranks, 0, 8, 2, np.array([8.0, 64.0]))
    assert counts.shape == (8, 2)
    assert (np.diff(counts, axis=0) <= 0).all()


def compositions(of: PipelineShape, *, all_turns: bool) -> list[np.ndarray]:
    """``[rank, counts]`` each, in the order of ``held_over_time``, with every rank a kind of its own."""
    stages = stages_of(
        replace(DENSE, num_layers=of.pp * of.vpp),
        of.pp,
        of.vpp,
        schedule=of.schedule,
        merge_pairs=of.merge_pairs,
        detach_weight_gradients=of.detach_weight_gradients,
        merge=False,
    )
    row = ParallelStrategy(pp=of.pp, vpp=of.vpp, schedule=of.schedule, microbatch_group_size_per_vp_stage=of.group_size)
    micro_batches, group_size = np.array([float(of.num_microbatches)]), StrategyBatch.of([row]).group_size
    found = of.schedule.rules.in_flight(stages, micro_batches, group_size, all_turns)
    return [
        np.concatenate([np.broadcast_to(part, (of.pp, 1)) for part in (*one.forwards, *one.weights, one.losses)], axis=1)
        for some in found
        for one in some.each()
    ]


def counts_both(of: PipelineShape) -> bool:
    """Whether both passes of a merged pair count, as published of two streams."""
    return of.schedule.rules.num_streams > 1


def held_over_time(of: PipelineShape, rank: int) -> np.ndarray:
    """``[moment, counts]`` by sets of micro batches: forwards by chunk, waiting weight gradients by chunk, waiting losses."""
    chunks, micro_batches = range(of.num_chunks), range(of.num_microbatches)
    head = {(place[0], place[1]) for place in [(r, c) for r in range(of.pp) for c in chunks] if place not in next_places(of)}
    forwards: set[tuple[int, int]] = set()
    weights: set[tuple[int, int]] = set()
    losses: set[tuple[int, int]] = set()
    rows = []

    def note() -> None:
        by_chunk = [sum((chunk, k) in held for k in micro_batches) for held in (forwards, weights) for chunk in chunks]
        rows.append([*by_chunk, len(losses)])

    for task in rank_orders(of)[rank]:
        ahead = (task.chunk, task.micro_batch)
        behind = (task.backward_chunk, task.backward_micro_batch) if task.kind is Pass.PAIR else ahead
        if task.kind not in (Pass.FORWARD, Pass.WEIGHT_GRADIENT):
            losses.discard(behind)
        swaps = task.kind is Pass.PAIR and not counts_both(of)
        if swaps:  # layer by layer from here to what is held behind it
            note()
            forwards.discard(behind)
        if task.kind in (Pass.FORWARD, Pass.PAIR):
            forwards.add(ahead)
        note()
        if task.kind is Pass.WEIGHT_GRADIENT:
            weights.discard(behind)
        elif task.kind is not Pass.FORWARD and not swaps:
            forwards.discard(behind)
        if task.kind is Pass.INPUT_GRADIENT:
            weights.add(behind)
            note()
        if task.kind in (Pass.FORWARD, Pass.PAIR) and (rank, task.chunk) in head:
            losses.add(ahead)
    assert not forwards | weights | losses
    return np.array(rows, dtype=np.float64)


@given(shapes(largest=8))
def test_every_schedule_holds_as_many_chunks_as_are_counted(of: PipelineShape) -> None:
    first = compositions(of, all_turns=False)[0][:, :-1]
    for rank in range(of.pp):
        assert first[rank].sum() == held_over_time(of, rank)[:, :-1].sum(axis=1).max()
        assert first[rank].sum() == sum(held_at_peak(oracle_rule(of).program(rank), of.num_chunks, both_of_pairs=counts_both(of)))


def counted_exactly(of: PipelineShape) -> bool:
    """False for a V on one rank, which is not legal, and for ZB-V with the fewest micro batches, where the count is above."""
    fewest = of.num_microbatches == of.schedule.rules.fewest_microbatches.of(of.pp)
    return not (of.schedule.rules.ends_meet and of.pp == 1) and not (of.schedule is Schedule.ZBV and fewest)


@given(shapes(largest=6).filter(counted_exactly), st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7))
def test_no_moment_of_any_schedule_is_heavier_or_lighter_than_the_compositions(of: PipelineShape, each: list[float]) -> None:
    weights = np.array(each[: 2 * of.num_chunks + 1])
    found = compositions(of, all_turns=True)
    for rank in range(of.pp):
        assert max(one[rank] @ weights for one in found) == pytest.approx((held_over_time(of, rank) @ weights).max())


@given(st.integers(2, 4), st.integers(2, 4), st.integers(4, 8), st.booleans(), st.data())
def test_a_last_group_that_is_not_full_turns_differently(
    pp: int, vpp: int, groups: int, merge: bool, data: st.DataObject
) -> None:
    size = data.draw(st.integers(pp + 1, 2 * pp))
    rest = data.draw(st.integers(pp, size - 1))
    of = shape(Schedule.INTERLEAVED, pp, groups * size + rest, vpp=vpp, group_size=size, merge_pairs=merge)
    weights = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=2 * vpp + 1, max_size=2 * vpp + 1)))
    found = compositions(of, all_turns=True)
    for rank in range(pp):
        assert max(one[rank] @ weights for one in found) == pytest.approx((held_over_time(of, rank) @ weights).max())


@given(st.integers(2, 5), st.integers(2, 4), st.integers(2, 12), st.integers(5, 40), st.booleans(), st.data())
def test_of_an_interleaved_rank_the_moments_that_are_counted_are_among_all_and_none_is_heavier(
    pp: int, vpp: int, size: int, micro_batches: int, merge: bool, data: st.DataObject
) -> None:
    of = shape(Schedule.INTERLEAVED, pp, micro_batches, vpp=vpp, group_size=max(size, pp), merge_pairs=merge)
    rank = data.draw(st.integers(0, pp - 1))
    weights = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=2 * vpp + 1, max_size=2 * vpp + 1)))
    counted = set(turns_taken(of, rank))
    every = held_over_time(of, rank)
    assert counted <= set(map(tuple, every.astype(int).tolist()))
    assert (np.array(sorted(counted)) @ weights).max() == pytest.approx((every @ weights).max())


def test_large_groups_are_counted_at_their_ends() -> None:
    # Three groups of 1,000 and one of 500 on four ranks: the first holds 2 x 3 + 1,000 + 1 forwards of its two chunks.
    of = shape(Schedule.INTERLEAVED, 4, 3_500, vpp=2, group_size=1_000)
    found = turns_taken(of, 0)
    assert len(set(found)) < 4 * 8 + 2
    assert max(sum(held) for held in found) == 1_007
    assert (1_000, 7, 0, 0, 0) in found


@given(st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1))
def test_only_moments_that_no_other_exceeds_are_weighed(found: set[tuple[int, ...]]) -> None:
    def exceeds(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return one != other and all(more >= less for more, less in zip(one, other, strict=True))

    left = [held for held in found if not any(exceeds(other, held) for other in found)]
    assert list(unexceeded(found)) == sorted(left, key=lambda held: (-sum(held[:-1]), held))
