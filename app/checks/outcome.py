"""What a check says of each thing that it looked at, and of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from app.checks.budget import Budget
from app.checks.metrics import shown
from app.exit_codes import BUDGET_BROKEN, DONE, NOTHING_FEASIBLE, SEARCH_CUT

ItemStatus = Literal["passed", "failed", "undetermined", "not_evaluated"]
Status = Literal["passed", "broken", "infeasible", "cut"]

STRATEGY, MEMORY, PLAN = "strategy", "memory", "plan"  # what must hold before a budget means anything
EXIT_CODES: Mapping[Status, int] = {
    "passed": DONE,
    "broken": BUDGET_BROKEN,
    "infeasible": NOTHING_FEASIBLE,
    "cut": SEARCH_CUT,
}


@dataclass(frozen=True)
class Item:
    """One thing that was looked at. ``value`` is held against ``limit``; both are null where the item is no number."""

    id: str
    status: ItemStatus
    sentence: str
    metric: str | None = None
    value: float | None = None
    limit: float | None = None


def bound_item(metric: str, end: str, limit: float, value: float, *, may_grow: bool = False) -> Item:
    """A metric against one bound; ``may_grow`` where a cut search knows only the least that the value can be."""
    holds = value >= limit if end == "min" else value <= limit
    status: ItemStatus = "passed" if holds else "failed"
    if may_grow and holds is (end == "max"):
        status = "undetermined"
    verb = "is at least" if may_grow else "is"
    bound = f"{'at least' if end == 'min' else 'at most'} {shown(metric, limit)}"
    said = {
        "passed": f"{bound} is allowed",
        "failed": f"but {bound} is allowed",
        "undetermined": f"and {bound} is allowed; the search was cut before it was known",
    }[status]
    sentence = f"{metric} {verb} {shown(metric, value)}, {said}."
    return Item(f"budget.{metric}.{end}", status, sentence, metric, value, limit)


def skipped(budget: Budget, *, with_regression: bool, why: str) -> list[Item]:
    """The items of a budget that nothing can be held against."""
    items = [
        Item(f"budget.{metric}.{end}", "not_evaluated", f"{metric} was not checked: {why}.", metric, None, limit)
        for metric, end, limit in budget.limits()
    ]
    if with_regression:
        items += [
            Item(f"regression.{metric}", "not_evaluated", f"{metric} was not compared: {why}.", metric, None, limit)
            for metric, limit in budget.tolerances.items()
        ]
    return items


def status_of(items: Iterable[Item]) -> Status:
    """The worst first: what cannot run, then what is known to be broken, then what is not known."""
    statuses = {item.id: item.status for item in items}
    if "failed" in (statuses.get(STRATEGY), statuses.get(MEMORY), statuses.get(PLAN)):
        return "infeasible"
    if "failed" in statuses.values():
        return "broken"
    return "cut" if "undetermined" in statuses.values() else "passed"
