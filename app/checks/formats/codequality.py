"""Failed checks as a code quality report of GitLab, which shows them in the diff of a merge request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from app.checks.formats.report import Report
from app.language.choice import said

SEVERITIES = {"failed": "major", "undetermined": "minor"}


def codequality_text(reports: Sequence[Report]) -> str:
    return json.dumps([entry for report in reports for entry in _entries(report)], indent=2, ensure_ascii=False) + "\n"


def _entries(report: Report) -> list[dict[str, Any]]:
    path, line = report.places.in_job(report.document)
    return [
        {
            "description": said(check.sentence),
            "check_name": check.id,
            "fingerprint": hashlib.sha256(f"{report.places.title} {check.id}".encode()).hexdigest()[:32],
            "severity": SEVERITIES[check.status],
            "location": {"path": path or report.places.title, "lines": {"begin": line}},
        }
        for check in report.document.checks
        if check.status in SEVERITIES
    ]
