"""The time of a step when the one number that matters most to the plan is a tenth worse."""

from __future__ import annotations

from cost_models.shapes.strategy import StrategyBatch
from documents.quantities import seconds
from documents.sentences import Sentence, word
from search.objectives.objective import (
    Direction,
    Estimates,
    Objective,
    ObjectiveContext,
    PointNumbers,
    PointValue,
    Strategies,
    Value,
)
from search.sensitivity.quantities import CHANGE, quantities


def _values(context: ObjectiveContext, strategies: Strategies, estimates: Estimates) -> list[Value]:
    from cost_models.step.composition import estimate  # every job reads the names of objectives, and few ask for this one

    workload, constants, batch = context.workload, context.constants, StrategyBatch.of(strategies)
    unchanged_s = estimate(workload, batch, constants).step_time_s
    worst: list[tuple[float, str]] = [(1.0, "nothing")] * len(strategies)
    for quantity, scaled in quantities(workload, constants):
        changed, changed_constants = scaled(1.0 / (1.0 + CHANGE))
        longer = (estimate(changed, batch, changed_constants).step_time_s / unchanged_s).tolist()
        worst = [max(before, (ratio, quantity)) for before, ratio in zip(worst, longer, strict=True)]
    found = []
    for numbers, (ratio, quantity) in zip(estimates, worst, strict=True):
        step_s = numbers["step_time_s"] * ratio
        text = Sentence("{} a step with {} {:.0%} worse, which hurts it most", seconds(step_s), word(quantity), CHANGE)
        found.append(Value(step_s, step_s, text))
    return found


def _of_point(point: PointNumbers) -> float | None:
    if point.days is None or point.step_time_s is None or point.step_time_high_s is None:
        return None
    return point.days * point.step_time_high_s / point.step_time_s


ROBUST = Objective(
    name="robust",
    unit="s",
    direction=Direction.SMALLER,
    orders_lattice_by=None,
    needs=frozenset(),
    values=_values,
    lower_bound=lambda context, step_time_s: step_time_s,  # nothing that is worse makes a step shorter
    of_point=PointValue(
        _of_point, Sentence("done first if steps take as long as the 80 % interval allows"), Sentence("an interval of the step")
    ),
)
