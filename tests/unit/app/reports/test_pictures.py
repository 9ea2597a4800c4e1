"""Where pieces, points and ticks of a report's pictures stand, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reports.pictures import bars, points, ticks
from meshplan.drawings import COLOURS


def test_bars_share_one_scale() -> None:
    drawn = bars([("a", {"x": 3.0, "y": 1.0}), ("b", {"x": 2.0})], width=100.0)
    assert [(piece.part, piece.x, piece.width) for piece in drawn.bars[0].pieces] == [("x", 0.0, 75.0), ("y", 75.0, 25.0)]
    assert [(piece.part, piece.x, piece.width) for piece in drawn.bars[1].pieces] == [("x", 0.0, 50.0)]
    assert [bar.total for bar in drawn.bars] == [4.0, 2.0]
    assert drawn.parts == [("x", COLOURS[0]), ("y", COLOURS[1])]


def test_a_limit_stretches_the_scale_and_has_its_place() -> None:
    drawn = bars([("a", {"x": 3.0})], width=100.0, limit=4.0)
    assert drawn.limit_x == 100.0
    assert drawn.bars[0].pieces[0].width == 75.0


def test_small_parts_stand_together_and_lose_nothing() -> None:
    drawn = bars([("a", {"large": 1.0, "small": 0.001, "tiny": 0.002})], width=1003.0)
    assert [(piece.part, piece.width) for piece in drawn.bars[0].pieces] == [("large", 1000.0), ("other", 3.0)]
    many = {f"part{index}": 1.0 + index for index in range(30)}
    crowded = bars([("a", many)], width=sum(many.values()))
    assert len(crowded.parts) == len(COLOURS)
    assert sum(piece.width for piece in crowded.bars[0].pieces) == pytest.approx(sum(many.values()))


def test_points_stand_between_the_ticks() -> None:
    drawn = points([("best", 10.0, 4.0), ("other", 20.0, 5.0)], 100.0, 50.0, limit=30.0)
    assert [tick for tick, _ in drawn.x_ticks] == [10.0, 15.0, 20.0, 25.0, 30.0]
    assert [(point.x, point.y, point.is_first) for point in drawn.points] == [(0.0, 50.0, True), (50.0, 0.0, False)]
    assert drawn.limit_x == 100.0


@given(st.floats(1e-9, 1e12), st.floats(0.0, 1e12))
def test_ticks_hold_the_values_between_them(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert found[0] <= low * (1 + 1e-9) + 1e-12
    assert found[-1] >= (low + span) * (1 - 1e-9)
    assert found == sorted(set(found))
    assert 2 <= len(found) <= 8
