"""A comparison for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_title
from app.text.terminal import plain_table
from app.traces.schemas import TraceDocument
from app.traces.service import label
from documents.quantities import column_seconds, percent, seconds
from documents.sentences import Sentence

SHOWN_KERNELS = 20


def _than(fraction: float) -> str:
    if abs(fraction) < 5e-4:
        return Sentence("the same")
    return Sentence("measured is {} {}", percent(abs(fraction)), Sentence("longer") if fraction > 0 else Sentence("shorter"))


def print_comparison(console: Console, document: TraceDocument) -> None:
    trace, estimate = document.trace, document.estimate
    for sentence in document.warnings:
        console.print(Sentence("Warning: {}", sentence), markup=False, style="yellow")
    print_title(console, document.job, document.strategy)
    of: str = Sentence("step {}", trace.step) if trace.step is not None else Sentence("one step")
    if trace.rank is not None:
        of = Sentence("{} of rank {}", of, trace.rank)
    predicted_s = trace.step_time_s - document.difference_s
    interval = ""
    if estimate.step_time_low_s is not None and estimate.step_time_high_s is not None:
        interval = Sentence(" (80 %: {} to {})", seconds(estimate.step_time_low_s), seconds(estimate.step_time_high_s))
    console.print(
        Sentence(
            "{}, {}: {} measured, {} predicted{}; {}.",
            trace.source,
            of,
            seconds(trace.step_time_s),
            seconds(predicted_s),
            interval,
            _than(document.difference_fraction),
        ),
        markup=False,
    )
    if len(trace.step_times_s) > 1:
        console.print(
            Sentence("{} steps in the trace, median {}.", len(trace.step_times_s), seconds(trace.median_step_time_s)),
            markup=False,
        )
    console.print(document.accounted, markup=False)
    console.print()
    table = plain_table("part", ">measured", ">predicted", ">difference", ">masked", ">predicted masked")
    parts = document.parts
    rows = [(row.measured_s, row.predicted_s, row.difference_s, row.measured_masked_s, row.predicted_masked_s) for row in parts]
    rows.append((trace.step_time_s, predicted_s, document.difference_s, 0.0, 0.0))
    cells = column_seconds([value for row in rows for value in row])
    for index, (name, row) in enumerate(zip([*(label(row.part) for row in parts), "step"], rows, strict=True)):
        shown = cells[index * len(row) : (index + 1) * len(row)]
        shown[2] = shown[2] if shown[2].startswith("-") else f"+{shown[2]}"
        if index == len(parts):
            table.add_row(name, *shown[:3], "", "", style="bold")
        else:
            table.add_row(name, *shown)
    console.print(table)
    if document.unknown_kernels:
        console.print()
        table = plain_table("kernel of no known kind", ">calls", ">time")
        for kernel in document.unknown_kernels[:SHOWN_KERNELS]:
            table.add_row(kernel.name, f"{kernel.count:,}", seconds(kernel.time_s))
        rest = document.unknown_kernels[SHOWN_KERNELS:]
        if rest:
            table.add_row(
                Sentence("{} more", len(rest)),
                f"{sum(each.count for each in rest):,}",
                seconds(sum(each.time_s for each in rest)),
            )
        console.print(table)
    if document.notes:
        console.print()
    for note in document.notes:
        console.print(note, markup=False, style="dim")
