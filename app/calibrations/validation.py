"""How far predictions are off, as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calibration.validation import ValidationReport


def document(report: ValidationReport) -> dict[str, Any]:
    rows = [{**asdict(row), "warnings": list(row.warnings)} for row in report.rows]
    summary = {name: asdict(errors) for name, errors in report.summary.items()}
    return {"schema_version": 1, "rows": rows, "summary": {"num_refused": report.num_refused, "categories": summary}}
