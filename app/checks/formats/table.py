"""A check as a table, for a person at a terminal or a reader of a log."""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from app.answers.tables.estimate import print_assumptions
from app.checks.formats.rows import WORDS, headline, movement_rows, sentences, subject
from app.checks.schemas import CheckDocument
from app.text.terminal import WIDTH_WITHOUT_TERMINAL, output, plain_table

STYLES = {"passed": "green", "failed": "bold red", "undetermined": "yellow", "not_evaluated": "dim"}


def table_text(document: CheckDocument) -> str:
    """Without colour, for a file."""
    file = io.StringIO()
    print_check(Console(file=file, width=WIDTH_WITHOUT_TERMINAL, no_color=True, highlight=False), document)
    return file.getvalue()


def show_table(document: CheckDocument) -> None:
    """On standard output, with colour on a terminal."""
    print_check(output(), document)
    sys.stdout.flush()


def print_check(console: Console, document: CheckDocument) -> None:
    print_assumptions(console, document.assumptions, document.warnings)
    about = subject(document)
    if about is not None:
        console.print(about, style="bold", markup=False)
    if document.baseline is not None:
        moved = plain_table("against the baseline", ">before", ">now", ">by the job", ">by the tool")
        for row in movement_rows(document):
            moved.add_row(*row)
        console.print(moved)
        for sentence in sentences(document):
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
        console.print()
    table = plain_table("check", "result", "")
    for check in document.checks:
        table.add_row(Text(check.id), Text(WORDS[check.status], style=STYLES[check.status]), Text(check.sentence))
    console.print(table)
    console.print(headline(document), markup=False, style=STYLES["passed" if document.status == "passed" else "failed"])
