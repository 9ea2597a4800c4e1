"""Failed checks as workflow commands of GitHub Actions, which show them at a line of the job file."""

from __future__ import annotations

from collections.abc import Sequence

from app.checks.formats.report import Report
from app.language.choice import said

LEVELS = {"failed": "error", "undetermined": "warning"}


def annotations_text(reports: Sequence[Report]) -> str:
    """A line for each finding; empty if everything passed."""
    return "".join(f"{line}\n" for report in reports for line in _lines(report))


def _lines(report: Report) -> list[str]:
    path, line = report.places.in_job(report.document)
    at = f"file={_property(path)},line={line}," if path else ""
    return [
        f"::{LEVELS[check.status]} {at}title={_property(f'meshplan check: {check.id}')}::{_data(said(check.sentence))}"
        for check in report.document.checks
        if check.status in LEVELS
    ]


def _data(text: str) -> str:
    return " ".join(text.split()).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
