"""Device-hours for a trillion tokens. At a fixed number of devices they order plans as step time does."""

from __future__ import annotations

from documents.quantities import count
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


def _hours(context: ObjectiveContext, step_time_s: float) -> float:
    return context.days(step_time_s) * 24.0 * context.workload.cluster.num_devices


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    found = [_hours(context, each["step_time_s"]) for each in estimates]
    return [Value(hours, hours, Sentence("{} device-hours for a trillion tokens", count(hours))) for hours in found]


DEVICE_HOURS = Objective(
    name="device_hours",
    unit="device-hours",
    direction=Direction.SMALLER,
    orders_lattice_by=Criterion.STEP_TIME,
    needs=frozenset(),
    values=_values,
    lower_bound=_hours,
    of_point=PointValue(lambda point: point.device_days, Sentence("fewest device-hours"), Sentence("a plan")),
)
