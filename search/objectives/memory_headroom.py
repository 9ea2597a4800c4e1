"""The device memory that stays free."""

from __future__ import annotations

from cost_models.memory.fit import fit_rule
from documents.quantities import gibibytes
from documents.sentences import Sentence
from search.objectives.objective import (
    Criterion,
    Direction,
    Estimates,
    Objective,
    ObjectiveContext,
    PointNumbers,
    PointValue,
    Strategies,
    Value,
)


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    limit = fit_rule(context.workload, context.constants).memory_limit_bytes
    return [
        Value(each["peak_memory_bytes"], free := limit - each["peak_memory_bytes"], Sentence("{} stay free", gibibytes(free)))
        for each in estimates
    ]


def _of_point(point: PointNumbers) -> float | None:
    return None if point.headroom_bytes is None else -point.headroom_bytes


MEMORY_HEADROOM = Objective(
    name="memory_headroom",
    unit="bytes",
    direction=Direction.LARGER,
    orders_lattice_by=Criterion.PEAK_MEMORY,
    needs=frozenset(),
    values=_values,
    lower_bound=lambda context, step_time_s: 0.0,  # a step says nothing of memory
    of_point=PointValue(_of_point, Sentence("most memory free"), Sentence("a plan")),
)
