"""A check as a table, for a person at a terminal or a reader of a log."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from app.answers.tables.estimate import print_assumptions
from app.checks.formats.report import Report, worst
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
from app.language.choice import said
from app.text.terminal import WIDTH_WITHOUT_TERMINAL, output, plain_table, plain_text

STYLES = {"passed": "green", "failed": "bold red", "undetermined": "yellow", "not_evaluated": "dim"}


def table_text(reports: Sequence[Report]) -> str:
    """The table without colour, for a file."""
    file = io.StringIO()
    print_checks(plain_text(file, WIDTH_WITHOUT_TERMINAL), reports)
    return file.getvalue()


def show_table(reports: Sequence[Report]) -> None:
    """Print the table to standard output, with colour on a terminal."""
    print_checks(output(), reports)
    sys.stdout.flush()


def print_checks(console: Console, reports: Sequence[Report]) -> None:
    """Print each job, and for several jobs a line for each at the end."""
    for report in reports:
        if len(reports) > 1:
            console.print(f"== {report.places.title}", style="bold", markup=False)
        print_check(console, report.document)
        if len(reports) > 1:
            console.print()
    if len(reports) > 1:
        matrix = plain_table(*MATRIX[:2], *(f">{name}" for name in MATRIX[2:]))
        for cells in matrix_rows(reports):
            matrix.add_row(*(Text(said(cell)) for cell in cells))
        console.print(matrix)
        console.print(run_headline(reports), markup=False, style=STYLES["passed" if worst(reports) == "passed" else "failed"])


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
        parts = plain_table("what moved", ">before", ">now", ">by")
        for cells in part_rows(document):
            parts.add_row(*cells)
        if parts.row_count:
            console.print(parts)
        for sentence in sentences(document):
            console.print(Padding(Text(said(sentence)), (0, 0, 0, 2)))
        console.print()
    table = plain_table("check", "result", "")
    for check in document.checks:
        table.add_row(Text(check.id), Text(said(WORDS[check.status]), style=STYLES[check.status]), Text(said(check.sentence)))
    console.print(table)
    console.print(headline(document), markup=False, style=STYLES["passed" if document.status == "passed" else "failed"])
