"""Energy for a trillion tokens."""

from __future__ import annotations

from documents.quantities import percent
from documents.sentences import Sentence
from search.objectives.objective import Direction, Estimates, Need, Objective, ObjectiveContext, PointValue, Strategies, Value


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    assert context.kwh_per_day is not None  # needed
    found = []
    for strategy, numbers in zip(strategies, estimates, strict=True):
        operation = context.operation(strategy, numbers)
        kwh = context.kwh_per_day(numbers, operation) * context.days(numbers["step_time_s"] / operation.useful_fraction)
        busy = percent(context.busy_fraction(numbers))
        found.append(Value(kwh, kwh, Sentence("{:,.1f} MWh for a trillion tokens, computing {} of the step", kwh / 1e3, busy)))
    return found


def _lower_bound(context: ObjectiveContext, step_time_s: float) -> float:
    return 0.0 if context.kwh_per_day is None else context.kwh_per_day(*context.all_waiting) * context.days(step_time_s)


ENERGY = Objective(
    name="energy",
    unit="kWh",
    direction=Direction.SMALLER,
    orders_lattice_by=None,
    needs=frozenset({Need.POWER}),
    values=_values,
    lower_bound=_lower_bound,
    of_point=PointValue(
        lambda point: point.energy_kwh, Sentence("least energy"), Sentence("the power of a device: delivery.power_w")
    ),
)
