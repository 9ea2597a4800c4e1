"""Rows and sentences that the table and the Markdown of a check share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.checks.formats.report import Report, worst
from app.checks.metrics import shown
from app.checks.schemas import CheckDocument
from documents.sentences import Sentence
from hardware_profiles.catalogue import shown_name

HEADLINES = {
    "passed": Sentence("PASSED"),
    "broken": Sentence("BUDGET BROKEN"),
    "infeasible": Sentence("INFEASIBLE"),
    "cut": Sentence("SEARCH CUT"),
}
WORDS = {
    "passed": Sentence("passed"),
    "failed": Sentence("FAILED"),
    "undetermined": Sentence("not known"),
    "not_evaluated": Sentence("not checked"),
}


def headline(document: CheckDocument) -> str:
    checks = document.checks
    passed = sum(check.status == "passed" for check in checks)
    return Sentence("{}: {} of {} checks passed", HEADLINES[document.status], passed, len(checks))


def run_headline(reports: Sequence[Report]) -> str:
    passed = sum(report.document.status == "passed" for report in reports)
    return Sentence("{}: {} of {} jobs passed", HEADLINES[worst(reports)], passed, len(reports))


MATRIX = ("job", "result", "step", Sentence("against the baseline"), Sentence("peak memory"), Sentence("against the baseline"))


def matrix_rows(reports: Sequence[Report]) -> Iterator[tuple[str, ...]]:
    """The cells of ``MATRIX``, job by job."""
    for report in reports:
        document, estimate = report.document, report.document.estimate
        moved = (
            {m.metric: m.value / m.before - 1 if m.before else None for m in document.baseline.movements}
            if document.baseline
            else {}
        )
        cells: list[str] = []
        for metric in ("step_time_s", "peak_memory_bytes"):
            cells.append("" if estimate is None else shown(metric, getattr(estimate, metric)))
            cells.append(_signed(moved[metric]) if metric in moved else "")
        yield report.places.title, HEADLINES[document.status], *cells


def subject(document: CheckDocument) -> str | None:
    """The job on one line."""
    job, strategy = document.job, document.strategy
    if job is None:
        return None
    text = Sentence(
        "{} on {:,} x {}", job["model"]["name"], job["cluster"]["num_devices"], shown_name(job["cluster"]["hardware"])
    )
    return text if strategy is None else Sentence("{}: {}", text, strategy.name)


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


TOLD_PARTS = 12  # most parts of a breakdown that are shown, those with the largest changes
SMALLEST_CHANGE = 1e-4  # smallest share of the total for a part to be shown


def part_rows(document: CheckDocument) -> Iterator[tuple[str, str, str, str]]:
    """Part of step or memory, baseline, now, difference; parts that moved by less than a ten thousandth are left out."""
    comparison = document.baseline
    if comparison is None:
        return
    for parts, metric in ((comparison.time_parts, "step_time_s"), (comparison.memory_parts, "peak_memory_bytes")):
        least = SMALLEST_CHANGE * sum(part.value for part in parts)
        for part in parts[:TOLD_PARTS]:
            if abs(part.change) > least:
                sign = "+" if part.change > 0 else "-"
                name = Sentence("{}: {}", Sentence("step") if metric == "step_time_s" else Sentence("memory"), part.part)
                yield name, shown(metric, part.before), shown(metric, part.value), f"{sign}{shown(metric, abs(part.change))}"


def _signed(fraction: float | None) -> str:
    if fraction is None:
        return "?"
    return "0 %" if abs(fraction) < 5e-7 else f"{fraction:+.2%}"


def sentences(document: CheckDocument) -> Iterator[str]:
    """Sentences on changes, and on assumptions of the comparison."""
    comparison = document.baseline
    if comparison is None:
        return
    yield from comparison.tool_changes
    if comparison.pinned:
        yield Sentence("Pinned: prices use the baseline's calibration and profile; only what the job moved counts.")
    for change in comparison.job_changes:
        yield Sentence("Changed in the job: {}.", change)
    if comparison.note:
        yield comparison.note
