"""The report on the space of a search: how switches were treated, and the effect of those left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.effective_switches import OF_SCHEDULE, possible, schedule_scope
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import LEFT_OUT, SWITCHES, Feature, InSearch, acting_on, treated
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from documents.sentences import Sentence
from frameworks.accepted_switches import rivals
from frameworks.legality import violations
from search.space.search_space import SearchSpace, offered_switches

GRAPH_EXECUTION = "software.execution=graph"


@dataclass(frozen=True)
class LeftOut:
    """A switch that a search did not try, with its effect on plan 1; ``None`` where plan 1 cannot have it or has no price."""

    name: str
    why: str
    step_time_change_fraction: float | None
    peak_memory_change_bytes: float | None


@dataclass(frozen=True)
class SpaceReport:
    """Switches by their treatment in the search, and ``dimensions`` with the values of the other dimensions.

    ``on`` switches are on in every strategy in which they act and the target takes them. ``where_it_does_not_fit`` switches are
    turned to save memory.
    """

    dimensions: Mapping[str, Any]
    on: tuple[str, ...]
    where_it_does_not_fit: tuple[str, ...]
    both_ways: tuple[str, ...]
    left_out: tuple[LeftOut, ...]

    def to_mapping(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "dimensions": dict(self.dimensions),
            **{name: list(getattr(self, name)) for name in ("on", "where_it_does_not_fit", "both_ways")},
            "left_out": [asdict(one) for one in self.left_out],
        }


def space_report(workload: Workload, space: SearchSpace, best: ParallelStrategy | None, constants: Constants) -> SpaceReport:
    """Report on one space. Each omitted switch is priced on top of ``best``."""
    known = offered_switches(workload) & possible(workload.model)
    known &= ~acting_on(OF_SCHEDULE & ~reduce(or_, map(schedule_scope, space.schedule)))
    combinations = [features for schedule in space.schedule for features in space.features_with(schedule)]
    always, ever = reduce(and_, combinations), reduce(or_, combinations)
    on = (always | space.wanted) & known
    both = ever & ~always & known
    lean = space.leaner & known
    out = known & ~(on | both | lean)
    return SpaceReport(
        dimensions=space.dimensions(),
        on=_names(on & ~lean | lean & treated(InSearch.LEAN_OFF)),
        where_it_does_not_fit=_names(lean),
        both_ways=_names(both),
        left_out=_left_out(workload, out, best, constants),
    )


def _names(features: Feature) -> tuple[str, ...]:
    return tuple(str(feature.name).lower() for feature in SWITCHES if feature in features)


def _left_out(workload: Workload, out: Feature, best: ParallelStrategy | None, constants: Constants) -> tuple[LeftOut, ...]:
    """Effects in closed form; the largest saving first."""
    found, priced = [], []
    for name in _names(out):
        entry = SWITCHES[Feature[name.upper()]]
        found.append(LeftOut(name, entry.why if entry.in_search in LEFT_OUT else Sentence("forbidden"), None, None))
    if best is not None:
        changed = {one.name: _with(workload, best, Feature[one.name.upper()]) for one in found}
        priced = [(name, strategy) for name, strategy in changed.items() if strategy is not None]
        prices = estimate(workload, StrategyBatch.of([best, *(strategy for _, strategy in priced)]), constants)
        numbers = {name: _changes(prices, 0, prices, row) for row, (name, _) in enumerate(priced, 1)}
        found = [LeftOut(one.name, one.why, *numbers.get(one.name, (None, None))) for one in found]
        if workload.software.execution == "eager":
            graph = replace(workload, software=replace(workload.software, execution="graph"))
            in_graph = estimate(graph, StrategyBatch.of([best]), constants)
            found.append(
                LeftOut(GRAPH_EXECUTION, Sentence("the job says how its software runs"), *_changes(prices, 0, in_graph, 0))
            )
    return tuple(sorted(found, key=lambda one: (one.step_time_change_fraction or 0.0, one.peak_memory_change_bytes or 0.0)))


def _with(workload: Workload, best: ParallelStrategy, feature: Feature) -> ParallelStrategy | None:
    """The plan with the switch; ``None`` where it cannot have it or no price would change."""
    changed = canonical(workload, replace(best, features=(best.features & ~rivals(feature)) | feature))
    takes_it = SWITCHES[feature].priced and feature in changed.features and not violations(workload, changed)
    return changed if takes_it else None


def _changes(base: Estimate, base_row: int, changed: Estimate, row: int) -> tuple[float, float]:
    time = float(changed.step_time_s[row] / base.step_time_s[base_row])
    return time - 1.0, float(changed.peak_memory_bytes[row] - base.peak_memory_bytes[base_row])
