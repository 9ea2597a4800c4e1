"""What the table and the Markdown of a check both show."""

from __future__ import annotations

from collections.abc import Iterator

from app.answers.tables.estimate import strategy_text
from app.checks.metrics import shown
from app.checks.schemas import CheckDocument

HEADLINES = {"passed": "PASSED", "broken": "BUDGET BROKEN", "infeasible": "INFEASIBLE", "cut": "SEARCH CUT"}
WORDS = {"passed": "passed", "failed": "FAILED", "undetermined": "not known", "not_evaluated": "not checked"}


def headline(document: CheckDocument) -> str:
    checks = document.checks
    passed = sum(check.status == "passed" for check in checks)
    return f"{HEADLINES[document.status]}: {passed} of {len(checks)} checks passed"


def subject(document: CheckDocument) -> str | None:
    """The job on one line."""
    job, strategy = document.job, document.strategy
    if job is None:
        return None
    text = f"{job['model']['name']} on {job['cluster']['num_devices']:,} x {job['cluster']['hardware']}"
    return text if strategy is None else f"{text}: {strategy_text(strategy)}"


def movement_rows(document: CheckDocument) -> Iterator[tuple[str, str, str, str, str]]:
    """Metric, baseline, now, moved by the job, moved by the tool."""
    for movement in document.baseline.movements if document.baseline else ():
        metric = movement.metric
        yield (
            metric,
            shown(metric, movement.before),
            shown(metric, movement.value),
            _signed(movement.job_fraction),
            _signed(movement.tool_fraction),
        )


def _signed(fraction: float | None) -> str:
    if fraction is None:
        return "?"
    return "0 %" if abs(fraction) < 5e-7 else f"{fraction:+.2%}"


def sentences(document: CheckDocument) -> Iterator[str]:
    """What changed, and what was assumed of the comparison."""
    comparison = document.baseline
    if comparison is None:
        return
    yield from comparison.tool_changes
    if comparison.pinned:
        yield "Pinned: prices use the baseline's calibration and profile; only what the job moved counts."
    for change in comparison.job_changes:
        yield f"Changed in the job: {change}."
    if comparison.note:
        yield comparison.note
