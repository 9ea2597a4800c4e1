"""How far predictions are off, as a document."""

from __future__ import annotations

from dataclasses import asdict

from app.calibrations.schemas import ValidationDocument
from calibration.validation import ValidationReport


def validation_document(report: ValidationReport) -> ValidationDocument:
    rows = [{**asdict(row), "warnings": list(row.warnings)} for row in report.rows]
    categories = {name: asdict(errors) for name, errors in report.summary.items()}
    summary = {"num_refused": report.num_refused, "categories": categories}
    return ValidationDocument.model_validate({"schema_version": 1, "rows": rows, "summary": summary})
