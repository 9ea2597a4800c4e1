from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from search.objectives.objective import Criterion
from search.ranking.leaderboard import Leaderboard, RankedStrategy, Scored

PLANS = st.lists(
    st.tuples(
        st.integers(1, 4),  # structure: tp
        st.integers(1, 3),  # micro batch size
        st.integers(1, 5).map(float),  # few values, so that ties are common
        st.integers(1, 3).map(float),
    ),
    min_size=1,
    max_size=60,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))  # a structure's rows are neighbours, as in the enumeration


def scored(rows: list[tuple[int, int, float, float]], first_ordinal: int = 0) -> Scored:
    strategies = [ParallelStrategy(tp=tp, micro_batch_size=mbs) for tp, mbs, _, _ in rows]
    return Scored(
        StrategyBatch.of(strategies),
        np.array([row[2] for row in rows]),
        np.array([row[3] for row in rows]),
        np.arange(first_ordinal, first_ordinal + len(rows)),
    )


def best_by_sorting(
    rows: list[tuple[int, int, float, float]], criterion: Criterion, top: int, num_variants: int
) -> list[list[tuple[int, float, float]]]:
    first, second = (3, 2) if criterion is Criterion.PEAK_MEMORY else (2, 3)
    order = sorted(range(len(rows)), key=lambda index: (rows[index][first], rows[index][second], index))
    structures: dict[int, list[tuple[int, float, float]]] = {}
    for index in order:
        tp, mbs, time, memory = rows[index]
        structures.setdefault(tp, []).append((mbs, time, memory))
    return [structure[: num_variants + 1] for structure in list(structures.values())[:top]]


def shown(plan: RankedStrategy) -> list[tuple[int, float, float]]:
    return [(p.strategy.micro_batch_size, p.step_time_s, p.peak_memory_bytes) for p in (plan, *plan.variants)]


@given(PLANS, st.sampled_from(list(Criterion)), st.integers(1, 4), st.integers(1, 7))
def test_the_leaderboard_is_the_sorted_list_however_the_rows_arrive(
    rows: list[tuple[int, int, float, float]], criterion: Criterion, top: int, chunk: int
) -> None:
    board = Leaderboard(criterion, top, num_variants=2)
    for start in range(0, len(rows), chunk):
        board.add(scored(rows[start : start + chunk], start))
    assert [shown(plan) for plan in board.plans()] == best_by_sorting(rows, criterion, top, 2)
    assert board.best_step_time_s == board.plans()[0].step_time_s


def test_ties_fall_to_less_memory_then_to_the_earlier_strategy() -> None:
    board = Leaderboard(Criterion.STEP_TIME, top=3)
    board.add(scored([(1, 1, 2.0, 9.0), (2, 1, 2.0, 5.0), (3, 1, 2.0, 5.0)]))
    assert [plan.strategy.tp for plan in board.plans()] == [2, 3, 1]


@pytest.mark.parametrize(
    "change", [{"tp": 2}, {"pp": 2}, {"cp": 2}, {"ep": 2}, {"vpp": 2}, {"schedule": Schedule.ONE_F_ONE_B}], ids=str
)
def test_degrees_and_schedule_make_the_structure(change: dict[str, int]) -> None:
    one = ParallelStrategy()
    batch = StrategyBatch.of([one, replace(one, micro_batch_size=2, etp=2), replace(one, **change)])
    board = Leaderboard(Criterion.STEP_TIME, top=5)
    board.add(Scored(batch, np.array([1.0, 2.0, 3.0]), np.ones(3), np.arange(3)))
    assert len(board.plans()) == 2
    first, second = board.plans()
    assert [variant.strategy.micro_batch_size for variant in first.variants] == [2]
    assert second.variants == ()


def test_nothing_added_is_an_empty_board() -> None:
    board = Leaderboard(Criterion.STEP_TIME, top=3)
    board.add(scored([]))
    assert board.plans() == ()
    assert board.best_step_time_s is None


def test_memory_stays_bounded_by_the_board() -> None:
    board = Leaderboard(Criterion.STEP_TIME, top=2, num_variants=1)
    rng = np.random.default_rng(0)
    for tp in range(1, 200):
        times = rng.random(50)
        board.add(scored([(tp, 1, float(time), 1.0) for time in times], 50 * tp))
        assert board._kept is not None
        assert len(board._kept) <= (2 + 1) * (1 + 1)  # two structures and the open one, each with a variant
