"""Measured and predicted times as a table."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from rich.console import Console

from app.measuring.schemas import MeasureDocument, MeasuredRow
from app.text.terminal import plain_table
from calibration.measurements.cases import Case, Kind
from documents.quantities import percent, seconds
from documents.sentences import Sentence, joined, word

SHOWN_REASONS = 5


def print_measured(console: Console, document: MeasureDocument) -> None:
    for kind, rows in groupby(document.results, key=lambda row: row.kind):
        compared = ("modelled", "measured / modelled") if document.hardware else ()
        table = plain_table(word(kind), ">measured", ">burst", ">TFLOPS", *(f">{name}" for name in compared))
        for row in rows:
            table.add_row(*_cells(row), *(_compared(row) if compared else ()))
        console.print(table)
        console.print()
    for row in document.results:
        if row.pool_over_allocated is not None:
            modelled = row.modelled_pool_over_allocated
            beside = "" if modelled is None else Sentence(" (modelled: {})", percent(modelled - 1.0))
            console.print(
                Sentence("The allocator's pool is {} above what it gave out{}.", percent(row.pool_over_allocated - 1.0), beside)
            )
    reasons = Counter(row.reason for row in document.skipped)
    for reason, number in reasons.most_common(SHOWN_REASONS):
        console.print(Sentence("{} not measured: {}", number, reason), markup=False)
    if document.hardware:
        medians = joined(", ", (Sentence("{} {:,.3g}", name, ratio) for name, ratio in document.medians.items()))
        console.print(Sentence("Median of measured / modelled: {}.", medians), markup=False)
        console.print(Sentence("Modelled: with the constants that ship; above 1 the device is slower than they say."))
    state = "" if document.is_complete else Sentence(" up to the interrupt")
    console.print(
        Sentence("Written to {}{}; hardware calibrate NAME --measurements {}", document.file, state, document.file), markup=False
    )


def title(row: MeasuredRow) -> str:
    return Case(Kind(row.kind), row.operation, row.precision, tuple(row.sizes.values())).title


def _cells(row: MeasuredRow) -> tuple[str, ...]:
    rate = "" if row.flops_per_s is None else f"{row.flops_per_s / 1e12:,.4g}"
    return title(row), seconds(row.measured_s), seconds(row.burst_s), rate


def _compared(row: MeasuredRow) -> tuple[str, str]:
    if row.modelled_s is None or row.measured_over_modelled is None:
        return "", ""
    return seconds(row.modelled_s), f"{row.measured_over_modelled:,.3g}"
