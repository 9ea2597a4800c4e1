"""Chunks in flight against the schedules themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.in_flight import chunks_in_flight
from tests.pipeline_events import most_held
from tests.worked_examples import worked


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
    most, of_chunk = most_held(rank, pp, vpp, micro_batches)
    assert held(rank, pp, vpp, micro_batches) == of_chunk
    assert sum(of_chunk) == most


def test_later_ranks_hold_less_and_columns_broadcast() -> None:
    ranks = np.arange(8.0)[:, None]
    counts = chunks_in_flight(ranks, 0, 8, 2, np.array([8.0, 64.0]))
    assert counts.shape == (8, 2)
    assert (np.diff(counts, axis=0) <= 0).all()
