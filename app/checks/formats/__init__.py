"""Checks of one job or of several as text: one function for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.checks.formats.annotations import annotations_text
from app.checks.formats.codequality import codequality_text
from app.checks.formats.junit import junit_text
from app.checks.formats.markdown import markdown_text
from app.checks.formats.report import Report, whole_document
from app.checks.formats.sarif import sarif_text
from app.checks.formats.table import table_text
from app.text.json_documents import json_text

FORMATS: Mapping[str, Callable[[Sequence[Report]], str]] = {
    "table": table_text,
    "json": lambda reports: json_text(whole_document(reports)),
    "junit": junit_text,
    "sarif": sarif_text,
    "markdown": markdown_text,
    "annotations": annotations_text,
    "codequality": codequality_text,
}
