"""Chunks in flight against the schedules themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.in_flight import chunks_in_flight, compositions_in_flight
from cost_models.simulation.orders import rank_orders
from cost_models.simulation.tasks import Pass, PipelineShape
from cost_models.stages import stages_of
from cost_models.strategy import ParallelStrategy, Schedule, StrategyBatch
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
    """``[rank, chunk]`` each, with every rank a kind of its own."""
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
    found = compositions_in_flight(stages, StrategyBatch.of([row]), np.array([float(of.num_microbatches)]), all_turns=all_turns)
    return [np.concatenate([np.broadcast_to(chunk, (of.pp, 1)) for chunk in one], axis=1) for one in found]


def held_over_time(of: PipelineShape, rank: int) -> np.ndarray:
    """``[forward, chunk]``: what is held as each forward of a rank runs."""
    held = np.zeros(of.num_chunks)
    rows = []
    for task in rank_orders(of)[rank]:
        if task.kind in (Pass.FORWARD, Pass.PAIR):
            held[task.chunk] += 1
            rows.append(held.copy())
        if task.kind in (Pass.BACKWARD, Pass.WEIGHT_GRADIENT, Pass.PAIR):
            held[task.backward_chunk if task.kind is Pass.PAIR else task.chunk] -= 1
    return np.array(rows)


@given(shapes(largest=8))
def test_every_schedule_holds_as_many_chunks_as_are_counted(of: PipelineShape) -> None:
    first = compositions(of, all_turns=False)[0]
    for rank in range(of.pp):
        assert first[rank].sum() == held_over_time(of, rank).sum(axis=1).max()
        assert first[rank].sum() == sum(held_at_peak(oracle_rule(of).program(rank), of.num_chunks))


@given(shapes(largest=6), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_no_moment_of_any_schedule_is_heavier_or_lighter_than_the_compositions(of: PipelineShape, each: list[float]) -> None:
    weights = np.array(each[: of.num_chunks])
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
    weights = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=vpp, max_size=vpp)))
    found = compositions(of, all_turns=True)
    for rank in range(pp):
        assert max(one[rank] @ weights for one in found) == pytest.approx((held_over_time(of, rank) @ weights).max())
