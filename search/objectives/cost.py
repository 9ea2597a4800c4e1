"""Money for a trillion tokens."""

from __future__ import annotations

import math

from documents.quantities import count
from documents.sentences import Sentence
from search.objectives.objective import (
    TOKENS,
    Direction,
    Estimates,
    Need,
    Objective,
    ObjectiveContext,
    PointValue,
    Strategies,
    Value,
)


def usd(context: ObjectiveContext, strategies: Strategies, estimates: Estimates, tokens: float = TOKENS) -> list[float]:
    """USD that each plan costs for ``tokens`` tokens; infinite without a price."""
    if context.usd_per_day is None:
        return [math.inf] * len(strategies)
    found = []
    for strategy, numbers in zip(strategies, estimates, strict=True):
        operation = context.operation(strategy, numbers)
        days = context.days(numbers["step_time_s"] / operation.useful_fraction, tokens)
        found.append(context.usd_per_day(numbers, operation) * days)
    return found


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    return [
        Value(each, each, Sentence("{} USD for a trillion tokens", count(each))) for each in usd(context, strategies, estimates)
    ]


def _lower_bound(context: ObjectiveContext, step_time_s: float) -> float:
    return 0.0 if context.usd_per_day is None else context.usd_per_day(*context.all_waiting) * context.days(step_time_s)


COST = Objective(
    name="cost",
    unit="USD",
    direction=Direction.SMALLER,
    orders_lattice_by=None,
    needs=frozenset({Need.PRICE}),
    values=_values,
    lower_bound=_lower_bound,
    of_point=PointValue(lambda point: point.cost_usd, "cheapest", Sentence("a price: --price-per-device-hour")),
)
