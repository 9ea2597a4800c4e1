"""A check as JUnit XML for Jenkins and GitLab, with a test case for each item."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from app.checks.formats.report import Report
from app.language.choice import headed, said
from documents.sentences import Sentence

# Check status -> element of the test case, and the attribute of the suite that counts it.
ELEMENTS = {"failed": "failure", "undetermined": "error", "not_evaluated": "skipped"}
COUNTS = {"failed": "failures", "undetermined": "errors", "not_evaluated": "skipped"}
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(reports: Sequence[Report]) -> str:
    suites = ElementTree.Element("testsuites", name=Sentence("meshplan check"))
    for report in reports:
        _add_suite(suites, report)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _add_suite(suites: ElementTree.Element, report: Report) -> None:
    checks = report.document.checks
    counts = {name: str(sum(check.status == status for check in checks)) for status, name in COUNTS.items()}
    summary = {"name": _clean(report.places.title), "tests": str(len(checks)), **counts}
    suite = ElementTree.SubElement(suites, "testsuite", summary)
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="meshplan.check", name=_clean(check.id))
        element, sentence = ELEMENTS.get(check.status), _clean(said(check.sentence))
        if element is not None:
            outcome = ElementTree.SubElement(case, element, message=sentence, type=check.status)
            outcome.text = sentence
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    if report.document.warnings:
        lines = (Sentence("{}: {}", headed("warning"), said(text)) for text in report.document.warnings)
        ElementTree.SubElement(suite, "system-err").text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
