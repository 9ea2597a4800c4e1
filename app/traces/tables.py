"""A comparison for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_assumptions, print_title
from app.text.quantities import column_seconds, percent, seconds
from app.text.terminal import plain_table
from app.traces.schemas import TraceDocument
from app.traces.service import label

SHOWN_KERNELS = 20


def print_comparison(console: Console, document: TraceDocument) -> None:
    trace, estimate = document.trace, document.estimate
    print_assumptions(console, document.assumptions, document.warnings)
    print_title(console, document.job, document.strategy)
    of = [f"step {trace.step}" if trace.step is not None else "one step", f"rank {trace.rank}" if trace.rank is not None else ""]
    predicted_s = trace.step_time_s - document.difference_s
    interval = ""
    if estimate.step_time_low_s is not None and estimate.step_time_high_s is not None:
        interval = f" (80 %: {seconds(estimate.step_time_low_s)} to {seconds(estimate.step_time_high_s)})"
    console.print(
        f"{trace.source}, {' of '.join(each for each in of if each)}: {seconds(trace.step_time_s)} measured, {seconds(predicted_s)} "
        f"predicted{interval}; measured is {percent(abs(document.difference_fraction))} "
        f"{'longer' if document.difference_s >= 0 else 'shorter'}.",
        markup=False,
    )
    if len(trace.step_times_s) > 1:
        console.print(f"{len(trace.step_times_s)} steps in the trace, median {seconds(trace.median_step_time_s)}.", markup=False)
    console.print(document.accounted, markup=False)
    console.print()
    table = plain_table("part", ">measured", ">predicted", ">difference", ">masked", ">predicted masked")
    parts = document.parts
    columns = [
        column_seconds([row.measured_s for row in parts]),
        column_seconds([row.predicted_s for row in parts]),
        [f"{row.difference_s:+,.3f} s" for row in parts],
        column_seconds([row.measured_masked_s for row in parts]),
        column_seconds([row.predicted_masked_s for row in parts]),
    ]
    for row, *cells in zip(parts, *columns, strict=True):
        table.add_row(label(row.part), *cells)
    table.add_row("step", seconds(trace.step_time_s), seconds(predicted_s), f"{document.difference_s:+,.3f} s", style="bold")
    console.print(table)
    if document.unknown_kernels:
        console.print()
        table = plain_table("kernel of no known kind", ">calls", ">time")
        for kernel in document.unknown_kernels[:SHOWN_KERNELS]:
            table.add_row(kernel.name, f"{kernel.count:,}", seconds(kernel.time_s))
        rest = document.unknown_kernels[SHOWN_KERNELS:]
        if rest:
            table.add_row(
                f"{len(rest)} more", f"{sum(each.count for each in rest):,}", seconds(sum(each.time_s for each in rest))
            )
        console.print(table)
    if document.notes:
        console.print()
    for note in document.notes:
        console.print(note, markup=False, style="dim")
