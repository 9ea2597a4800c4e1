"""The input of every format: the check of each job, and its files."""

from __future__ import annotations

from collections.abc import Sequence

from app.checks.formats.places import Places
from app.checks.outcome import EXIT_CODES
from app.checks.schemas import CheckDocument, ChecksDocument, NamedCheck, Status
from app.jobs.job import SCHEMA_VERSION
from documents.late_methods import dataclass
from meshplan import __version__

WORST_FIRST: tuple[Status, ...] = ("infeasible", "broken", "cut", "passed")


@dataclass(frozen=True)
class Report:
    """The check of one job of a run."""

    document: CheckDocument
    places: Places


def worst(reports: Sequence[Report]) -> Status:
    """The worst status of a run."""
    return min((report.document.status for report in reports), key=WORST_FIRST.index)


def whole_document(reports: Sequence[Report]) -> CheckDocument | ChecksDocument:
    """The document of one check, or a document with the checks of several jobs by name."""
    if len(reports) == 1:
        return reports[0].document
    status = worst(reports)
    return ChecksDocument(
        schema_version=SCHEMA_VERSION,
        version=__version__,
        status=status,
        exit_code=EXIT_CODES[status],
        jobs=[NamedCheck(name=report.places.title, check=report.document) for report in reports],
    )
