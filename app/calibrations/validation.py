"""Errors of predictions, as a document."""

from __future__ import annotations

from app.calibrations.schemas import ValidationDocument, ValidationSummary
from calibration.validation.predictions import ValidationReport


def validation_document(report: ValidationReport) -> ValidationDocument:
    summary = ValidationSummary(num_refused=report.num_refused, categories=report.summary)
    return ValidationDocument(schema_version=1, rows=list(report.rows), summary=summary)
