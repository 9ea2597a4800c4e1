"""Rows of balanced experts: whole numbers that add up, whatever the tokens divide by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.even_shares import even_shares, splits


def test_a_remainder_is_spread() -> None:
    # 4,096 tokens of six experts each, over 160 experts: 153.6 rows, which five experts together have as 768.
    shares = even_shares(4_096 * 6, 160)
    assert shares[:5] == [153, 154, 153, 154, 154]
    assert sum(shares) == 24_576
    sent, received, own = splits(24_576, 160, 8, 3)
    assert sent == [3_072] * 8
    assert received == [sum(own)] * 8
    assert len(own) == 20


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
def test_all_rows_arrive(rows: int, ranks: int, local: int) -> None:
    found = [splits(rows, ranks * local, ranks, rank) for rank in range(ranks)]
    assert sum(sum(own) for _, _, own in found) == rows
    for rank, (sent, received, own) in enumerate(found):
        assert sent == [sum(each) for _, _, each in found]
        assert received == [sum(own)] * ranks
        assert sum(own) == pytest.approx(rows / ranks, abs=1)
        assert max(own) - min(own) <= 1, rank
