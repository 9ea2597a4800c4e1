"""A check as SARIF 2.1.0, for code scanning.

Only failed items are results, because code scanning makes an alert of every result. Items that a cut search left undecided
are notifications of an unsuccessful run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from app.checks.formats.places import Places
from app.checks.formats.report import Report, worst
from app.checks.outcome import EXIT_CODES
from app.checks.schemas import CheckItem
from app.language.choice import said
from app.text.json_documents import json_text
from documents.sentences import Sentence

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES = {
    "strategy": Sentence("The strategy can run"),
    "memory": Sentence("The strategy fits into device memory"),
    "plan": Sentence("The search finds a plan"),
    "budget": Sentence("The budget holds"),
    "regression": Sentence("Nothing is worse than in the baseline"),
}


def sarif_text(reports: Sequence[Report]) -> str:
    documents, status = [report.document for report in reports], worst(reports)
    notes = [{"level": "warning", "message": {"text": said(text)}} for document in documents for text in document.warnings]
    checks = [check for document in documents for check in document.checks]
    notes += [{"level": "error", "message": {"text": said(c.sentence)}} for c in checks if c.status == "undetermined"]
    driver = {
        "name": "meshplan",
        "version": documents[0].version,
        "rules": [{"id": name, "shortDescription": {"text": said(text)}} for name, text in RULES.items()],
    }
    invocation = {
        "executionSuccessful": status != "cut",
        "exitCode": EXIT_CODES[status],
        "toolExecutionNotifications": notes,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [
            _result(check, report.places) for report in reports for check in report.document.checks if check.status == "failed"
        ],
        "columnKind": "unicodeCodePoints",
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(check: CheckItem, places: Places) -> dict[str, Any]:
    rule = check.id.partition(".")[0]
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "kind": "fail",
        "level": "error",
        "message": {"text": said(check.sentence)},
        "partialFingerprints": {"check/v1": hashlib.sha256(f"{places.title} {check.id}".encode()).hexdigest()[:16]},
        "properties": check.model_dump(include={"id", "metric", "value", "limit"}, exclude_none=True),
    }
    place = places.of(check.id)
    if place is not None:
        location = {"artifactLocation": {"uri": place.uri}, "region": {"startLine": place.line}}
        result["locations"] = [{"physicalLocation": location}]
    return result
