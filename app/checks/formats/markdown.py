"""A check as Markdown, for a comment on a merge request."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from app.checks.formats.report import Report
from app.checks.formats.rows import (
    MATRIX,
    WORDS,
    headline,
    matrix_rows,
    movement_rows,
    part_rows,
    run_headline,
    sentences,
    subject,
)
from app.checks.schemas import CheckDocument
from app.language.choice import headed, said
from documents.markdown import broken_links, neutral
from documents.sentences import Sentence


def markdown_text(reports: Sequence[Report]) -> str:
    return "\n".join(_run(reports) if len(reports) > 1 else _titled(reports[0].document)) + "\n"


def _run(reports: Sequence[Report]) -> Iterator[str]:
    """A table with a line for each job, then each job, folded if it passed."""
    yield from (f"### meshplan check: {_text(run_headline(reports))}", "")
    yield _heads(*MATRIX)
    yield "|---|---|---:|---:|---:|---:|"
    for cells in matrix_rows(reports):
        yield Sentence("| {} |", " | ".join(map(_text, cells)))
    for report in reports:
        summary = html.escape(broken_links(Sentence("{}: {}", report.places.title, said(headline(report.document)))))
        opened = "" if report.document.status == "passed" else " open"
        yield from ("", f"<details{opened}><summary>{summary}</summary>", "", *_lines(report.document), "", "</details>")


def _titled(document: CheckDocument) -> Iterator[str]:
    yield from (f"### meshplan check: {_text(headline(document))}", "", *_lines(document))


def _lines(document: CheckDocument) -> Iterator[str]:
    about = subject(document)
    if about is not None:
        yield from (_text(about), "")
    rows = list(movement_rows(document))
    if rows:
        yield _heads(
            Sentence("against the baseline"), "before", "now", Sentence("moved by the job"), Sentence("moved by the tool")
        )
        yield "|---|---:|---:|---:|---:|"
        for metric, *numbers in rows:
            yield f"| `{metric}` | {' | '.join(map(_text, numbers))} |"
        yield ""
        parts = list(part_rows(document))
        if parts:
            yield from (_heads(Sentence("what moved"), "before", "now", "by"), "|---|---:|---:|---:|")
            yield from (Sentence("| {} |", " | ".join(map(_text, row))) for row in parts)
            yield ""
        for sentence in sentences(document):
            yield Sentence("- {}", _text(sentence))
        yield ""
    yield _heads("check", "result", "")
    yield "|---|---|---|"
    for check in document.checks:
        result = said(WORDS[check.status])
        yield f"| `{check.id}` | {f'**{result}**' if check.status == 'failed' else result} | {_text(check.sentence)} |"
    for title, entries in (("Warnings:", document.warnings), ("Assumed:", document.assumptions)):
        if entries:
            yield from ("", headed(title), "", *(Sentence("- {}", _text(entry)) for entry in entries))


def _heads(*heads: str) -> str:
    return Sentence("| {} |", " | ".join(map(headed, heads)))


def _text(text: str) -> str:
    """The text in the reader's language, on one line, with Markdown escaped."""
    return neutral(said(text))
