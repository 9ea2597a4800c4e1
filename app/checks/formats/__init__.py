"""A check's document as text: one function for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.checks.formats.junit import junit_text
from app.checks.formats.markdown import markdown_text
from app.checks.formats.places import Places
from app.checks.formats.sarif import sarif_text
from app.checks.formats.table import table_text
from app.checks.schemas import CheckDocument
from app.text.documents import json_text

FORMATS: Mapping[str, Callable[[CheckDocument, Places], str]] = {
    "table": lambda document, places: table_text(document),
    "json": lambda document, places: json_text(document),
    "junit": lambda document, places: junit_text(document, places),
    "sarif": sarif_text,
    "markdown": lambda document, places: markdown_text(document),
}
