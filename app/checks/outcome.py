"""Results of a check: its items, and its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from app.checks.budget import Budget
from app.checks.metrics import shown
from app.checks.schemas import CheckItem, ItemStatus, Status
from app.exit_codes import BUDGET_BROKEN, DONE, NOTHING_FEASIBLE, SEARCH_CUT
from documents.sentences import Sentence

STRATEGY, MEMORY, PLAN = "strategy", "memory", "plan"  # conditions without which a budget is meaningless
EXIT_CODES: Mapping[Status, Literal[0, 3, 4, 5]] = {
    "passed": DONE,
    "broken": BUDGET_BROKEN,
    "infeasible": NOTHING_FEASIBLE,
    "cut": SEARCH_CUT,
}


def item(
    id: str,
    status: ItemStatus,
    sentence: str,
    metric: str | None = None,
    value: float | None = None,
    limit: float | None = None,
) -> CheckItem:
    """An item of a check. ``value`` is compared with ``limit``; both are null if the item is no number."""
    return CheckItem(id=id, status=status, sentence=sentence, metric=metric, value=value, limit=limit)


def bound_item(metric: str, end: str, limit: float, value: float, *, may_grow: bool = False) -> CheckItem:
    """Compare a metric with a bound; ``may_grow`` if a cut search knows only a lower bound of the value."""
    holds = value >= limit if end == "min" else value <= limit
    status: ItemStatus = "passed" if holds else "failed"
    if may_grow and holds is (end == "max"):
        status = "undetermined"
    said = _allowance(status, end, shown(metric, limit))
    text = shown(metric, value)
    sentence = (
        Sentence("{} is at least {}, {}.", metric, text, said) if may_grow else Sentence("{} is {}, {}.", metric, text, said)
    )
    return item(f"budget.{metric}.{end}", status, sentence, metric, value, limit)


def _allowance(status: ItemStatus, end: str, bound: str) -> str:
    """End of the sentence on a value: the bound and, if undetermined, the reason."""
    if status == "passed":
        return Sentence("at least {} is allowed", bound) if end == "min" else Sentence("at most {} is allowed", bound)
    if status == "failed":
        return Sentence("but at least {} is allowed", bound) if end == "min" else Sentence("but at most {} is allowed", bound)
    known = Sentence("the search stopped before this value was known")
    if end == "min":
        return Sentence("and at least {} is allowed; {}", bound, known)
    return Sentence("and at most {} is allowed; {}", bound, known)


def skipped(budget: Budget, *, with_regression: bool, why: str) -> list[CheckItem]:
    """The items of a budget that cannot be checked."""
    items = [
        item(f"budget.{metric}.{end}", "not_evaluated", Sentence("{} was not checked: {}.", metric, why), metric, None, limit)
        for metric, end, limit in budget.limits()
    ]
    if with_regression:
        items += [
            item(f"regression.{metric}", "not_evaluated", Sentence("{} was not compared: {}.", metric, why), metric, None, limit)
            for metric, limit in budget.tolerances.items()
        ]
    return items


def status_of(items: Iterable[CheckItem]) -> Status:
    """The worst status: infeasible, then broken, then undecided."""
    statuses = {found.id: found.status for found in items}
    if "failed" in (statuses.get(STRATEGY), statuses.get(MEMORY), statuses.get(PLAN)):
        return "infeasible"
    if "failed" in statuses.values():
        return "broken"
    return "cut" if "undetermined" in statuses.values() else "passed"
