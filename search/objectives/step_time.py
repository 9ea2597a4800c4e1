"""The time of one step."""

from __future__ import annotations

from documents.quantities import seconds
from documents.sentences import Sentence
from search.objectives.objective import (
    Criterion,
    Direction,
    Estimates,
    Objective,
    ObjectiveContext,
    PointValue,
    Strategies,
    Value,
)


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    return [
        Value(each["step_time_s"], each["step_time_s"], Sentence("{} a step", seconds(each["step_time_s"]))) for each in estimates
    ]


STEP_TIME = Objective(
    name="step_time",
    unit="s",
    direction=Direction.SMALLER,
    orders_lattice_by=Criterion.STEP_TIME,
    needs=frozenset(),
    values=_values,
    lower_bound=lambda context, step_time_s: step_time_s,
    of_point=PointValue(lambda point: point.days, Sentence("done first"), Sentence("a plan")),
)
