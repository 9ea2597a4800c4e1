"""A check as Markdown, for a comment on a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.checks.formats.rows import WORDS, headline, movement_rows, sentences, subject
from app.checks.schemas import CheckDocument

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def markdown_text(document: CheckDocument) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: CheckDocument) -> Iterator[str]:
    yield f"### meshplan check: {headline(document)}"
    yield ""
    about = subject(document)
    if about is not None:
        yield from (_text(about), "")
    rows = list(movement_rows(document))
    if rows:
        yield "| against the baseline | before | now | moved by the job | moved by the tool |"
        yield "|---|---:|---:|---:|---:|"
        for metric, *numbers in rows:
            yield f"| `{metric}` | {' | '.join(map(_text, numbers))} |"
        yield ""
        for sentence in sentences(document):
            yield f"- {_text(sentence)}"
        yield ""
    yield "| check | result | |"
    yield "|---|---|---|"
    for check in document.checks:
        result = WORDS[check.status]
        yield f"| `{check.id}` | {f'**{result}**' if check.status == 'failed' else result} | {_text(check.sentence)} |"
    for title, entries in (("Warnings", document.warnings), ("Assumed", document.assumptions)):
        if entries:
            yield from ("", f"{title}:", "", *(f"- {_text(entry)}" for entry in entries))


def _text(text: str) -> str:
    """The text as it is: on one line, with nothing that Markdown would read as more."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
