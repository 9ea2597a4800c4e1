"""A varied record is what ``dataclasses.replace`` makes of it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch


@dataclass(frozen=True)
class Square:
    side: int
    colour: str = "red"

    @cached_property
    def area(self) -> int:
        return self.side**2


def test_fields_change_and_what_was_cached_is_left_behind() -> None:
    small = Square(2)
    assert small.area == 4
    large = varied(small, side=3)
    assert large == replace(small, side=3) == Square(3, "red")
    assert large.area == 9
    assert small.side == 2


def test_rows_by_their_schedule() -> None:
    every = list(Schedule)
    batch = StrategyBatch.of([ParallelStrategy(pp=2, schedule=schedule) for schedule in every])
    two = Schedule.GPIPE, Schedule.DUALPIPE
    assert batch.runs(two).tolist() == [schedule in two for schedule in every]
    assert np.array_equal(batch.runs(schedule for schedule in every), np.ones(len(every), dtype=np.bool_))
