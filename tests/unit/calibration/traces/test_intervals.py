"""Who a moment belongs to: worked by hand, and against a clock that ticks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.traces.intervals import merged, shared_out, within


def test_a_moment_belongs_to_the_first_that_is_busy() -> None:
    """Compute 0-4 and 6-7; communication 3-6: 4 to 6 is exposed, 3 to 4 masked; 7 of 10 s are busy."""
    compute, communication = np.array([[0.0, 4.0], [6.0, 7.0]]), np.array([[3.0, 6.0]])
    exposed, masked, busy_s = shared_out([("compute", compute), ("communication", communication)])
    assert exposed == {"compute": 5.0, "communication": 2.0}
    assert masked == {"compute": 0.0, "communication": 1.0}
    assert busy_s == 7.0


def test_spans_that_touch_are_one_and_a_window_cuts_them() -> None:
    spans = merged(np.array([[5.0, 6.0], [0.0, 2.0], [2.0, 3.0], [1.0, 1.5], [4.0, 4.0]]))
    assert spans.tolist() == [[0.0, 3.0], [5.0, 6.0]]
    assert merged(within(spans, 2.5, 5.5)).tolist() == [[2.5, 3.0], [5.0, 5.5]]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=8).map(
            lambda pairs: [(start, start + length) for start, length in pairs]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_as_a_clock_counts(lanes: list[list[tuple[int, int]]]) -> None:
    busy = [(str(lane), np.array(spans, dtype=float).reshape(-1, 2)) for lane, spans in enumerate(lanes)]
    exposed, masked, total = shared_out(busy)
    ticks = [{tick for start, end in spans for tick in range(start, end)} for spans in lanes]
    for lane, own in enumerate(ticks):
        before = set().union(*ticks[:lane])
        assert exposed[str(lane)] == pytest.approx(len(own - before))
        assert masked[str(lane)] == pytest.approx(len(own & before))
    assert total == pytest.approx(len(set().union(*ticks)))
