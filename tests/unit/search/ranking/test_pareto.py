"""The front of rows that nothing beats."""

import hypothesis.strategies as st
from hypothesis import given

from search.ranking.pareto import pareto


def test_the_front_holds_what_nothing_beats_in_every_value() -> None:
    assert pareto([(4.0, 1.0), (2.0, 2.0), (2.0, 3.0), (1.0, 5.0), (1.0, 5.0), (3.0, 3.0)]) == [3, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_every_row_is_on_the_front_or_behind_one_that_is(rows: list[tuple[int, int, int]]) -> None:
    front = pareto(rows)
    for row, values in enumerate(rows):
        beaten = [kept for kept in front if all(a <= b for a, b in zip(rows[kept], values, strict=True))]
        assert (row in front) == (beaten == [row])
