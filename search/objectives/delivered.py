"""Tokens a day that are delivered once failures are counted."""

from __future__ import annotations

from cost_models.delivery.failures import DAY_S
from documents.quantities import count, percent
from documents.sentences import Sentence
from search.objectives.objective import Direction, Estimates, Need, Objective, ObjectiveContext, PointValue, Strategies, Value


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    found = []
    for strategy, numbers in zip(strategies, estimates, strict=True):
        useful = context.operation(strategy, numbers).useful_fraction
        per_day = numbers["tokens_per_s"] * useful * DAY_S
        text = Sentence("{} tokens a day delivered, {} of the time useful", count(per_day), percent(useful, 2))
        found.append(Value(numbers["step_time_s"] / useful, per_day, text))
    return found


DELIVERED = Objective(
    name="delivered",
    unit=Sentence("tokens a day"),
    direction=Direction.LARGER,
    orders_lattice_by=None,
    needs=frozenset({Need.FAILURES}),
    values=_values,
    lower_bound=lambda context, step_time_s: step_time_s,  # no more than all of the time is useful
    of_point=PointValue(lambda point: point.days, Sentence("done first, failures counted"), Sentence("a plan")),
)
