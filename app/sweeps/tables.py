"""A sweep as tables, and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from rich.console import Console

from app.answers.tables.estimate import print_doubts
from app.sweeps.schemas import SweepDocument, SweepPoint
from app.sweeps.summary import SURE
from app.text.json_documents import plain
from app.text.terminal import plain_table
from documents.quantities import column_seconds, count, days, gibibytes, percent
from documents.sentences import Sentence, joined, word

NOTHING = "-"
_AXES = {  # shown if it varies
    "hardware": "hardware",
    "stack": "stack",
    "seq_length": ">sequence",
    "global_batch_size": ">batch",
}
_WITH_INTERVAL = ("tokens_per_s", "tokens_per_s_per_device", "days", "device_days", "energy_kwh", "cost_usd")
COLUMNS = tuple(
    column
    for name in SweepPoint.model_fields
    if name not in ("strategy", "intervals")
    for column in ((name, f"{name}_low", f"{name}_high") if name in _WITH_INTERVAL else (name,))
)
_STRATEGY = ("tp", "pp", "cp", "ep", "vpp", "dp", "micro_batch_size", "schedule")


def print_sweep(console: Console, document: SweepDocument, *, details: bool = False) -> None:
    console.print(_title(document), markup=False)
    console.print()
    _print_points(console, document)
    _print_reasons(console, document)
    console.print()
    for curve in document.curves:
        where = Sentence(
            "{}, {}, batch {:,}, sequence {:,}", curve.hardware, curve.stack, curve.global_batch_size, curve.seq_length
        )
        until = Sentence("{:,} devices", curve.knee_devices) if curve.knee_devices else Sentence("beyond the largest count")
        console.print(Sentence("Knee of {}: {}.", where, until), markup=False)
    for structure in document.structures[:5]:
        numbers = joined(", ", map(str, structure.points))
        name = f"TP{structure.tp} PP{structure.pp} VPP{structure.vpp} CP{structure.cp} EP{structure.ep} {structure.schedule}"
        console.print(
            Sentence("{} is best at {} {}.", name, "point" if len(structure.points) == 1 else "points", numbers),
            markup=False,
        )
    if document.pareto:
        weighed = (Sentence.whole(name.removesuffix("_usd").replace("_", "-")) for name in document.pareto_of)
        against = joined(" against ", weighed)
        console.print(
            Sentence("Pareto-optimal points for {}: {}.", against, joined(", ", map(str, document.pareto))), markup=False
        )
    if document.best is not None:
        console.print(Sentence("Best: point {}, {}.", document.best.point, document.best.why), style="bold", markup=False)
        _print_certainty(console, document, document.best.point)
    else:
        console.print(document.why_none or "", style="bold", markup=False)
    if document.stopped_by:
        cut = word(document.stopped_by)
        console.print(
            Sentence("Cut by {}: {} of {} points are above.", cut, document.num_done, document.num_points), markup=False
        )
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def _print_certainty(console: Console, document: SweepDocument, number: int) -> None:
    """By when the best point is sure to be done."""
    point = next(each for each in document.points if each.point == number)
    if point.days is None or point.sure_days is None or point.step_time_high_s is None:
        return
    confidence = document.job.get("sweep", {}).get("deadline_confidence") or SURE
    text = Sentence("It takes {}, and with {:.0%} at most {}", days(point.days), confidence, days(point.sure_days))
    if point.within_probability is None:
        console.print(Sentence("{}.", text), markup=False)
    else:
        console.print(Sentence("{}; the deadline is met with {:.0%}.", text, point.within_probability), markup=False)


def _title(document: SweepDocument) -> str:
    model = document.job["model"]
    name = model["name"] if isinstance(model, dict) else model
    return Sentence("{}: {} of {} points, for {} tokens", name, document.num_done, document.num_points, count(document.tokens))


def _print_points(console: Console, document: SweepDocument) -> None:
    points = document.points
    axes = [name for name in _AXES if len({getattr(point, name) for point in points}) > 1]
    headers = [_AXES[name] for name in axes]
    table = plain_table(
        ">",
        *headers,
        ">devices",
        "best plan",
        ">step",
        ">80 %",
        ">tokens/s",
        ">MFU",
        ">linear",
        ">memory",
        ">days",
        ">device-days",
        ">USD",
        ">MWh",
    )
    steps = iter(column_seconds(point.step_time_s for point in points if point.step_time_s is not None))
    for point in points:
        where = [f"{value:,}" if isinstance(value := getattr(point, name), int) else value for name in axes]
        is_best = document.best is not None and document.best.point == point.point
        cells = _cells(point, steps)
        table.add_row(str(point.point), *where, f"{point.num_devices:,}", *cells, style="bold" if is_best else None)
    console.print(table)


def _cells(point: SweepPoint, steps: object) -> list[str]:
    if point.strategy is None:
        return [point.state, *[NOTHING] * 10]
    assert hasattr(steps, "__next__")
    mark = "" if point.state == "proved" else " *"
    return [
        point.strategy.name + mark,
        next(steps),
        _interval(point),
        count(point.tokens_per_s or 0.0),
        NOTHING if point.mfu_fraction is None else percent(point.mfu_fraction),
        NOTHING if point.linearity_fraction is None else percent(point.linearity_fraction),
        NOTHING if point.peak_memory_bytes is None else gibibytes(point.peak_memory_bytes),
        NOTHING if point.days is None else days(point.days) + ("" if point.within else " !"),
        NOTHING if point.device_days is None else count(point.device_days),
        NOTHING if point.cost_usd is None else f"{count(point.cost_usd)}",
        NOTHING if point.energy_kwh is None else f"{point.energy_kwh / 1e3:,.0f}",
    ]


def _interval(point: SweepPoint) -> str:
    """The ends of the interval of the step time, relative to it."""
    low_s, high_s, step_s = point.step_time_low_s, point.step_time_high_s, point.step_time_s
    if low_s is None or high_s is None or not step_s:
        return NOTHING
    return f"{100 * (low_s / step_s - 1.0):+.0f}/{100 * (high_s / step_s - 1.0):+.0f} %"


def _print_reasons(console: Console, document: SweepDocument) -> None:
    notes = {
        "*": any(point.strategy is not None and point.state != "proved" for point in document.points),
        "!": any(point.within is False for point in document.points),
    }
    if notes["*"]:
        console.print(Sentence("* not proved: better plans may exist."), markup=False)
    if notes["!"]:
        console.print(Sentence("! beyond the deadline or the budget."), markup=False)
    if any(point.step_time_low_s is not None for point in document.points):
        sentence = Sentence("80 %: the interval of the step, and of days, device-days, USD and MWh, which grow with it.")
        console.print(sentence, markup=False)
    for point in document.points:
        if point.reason is not None:
            console.print(Sentence("{}: {}", point.point, point.reason), markup=False)


def columns_of(document: SweepDocument) -> dict[str, list[Any]]:
    """Columns with a row for each point; None without a value."""
    found: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, *_STRATEGY)}
    for point in document.points:
        values = plain(point)
        strategy = values.get("strategy") or {}
        values |= {f"{name}_{end}": limit for name, ends in point.intervals.items() for end, limit in plain(ends).items()}
        for names, of in ((COLUMNS, values), (_STRATEGY, strategy)):
            for name in names:
                found[name].append(of.get(name))
    return found


def csv_text(document: SweepDocument) -> str:
    """A line for each point; an empty cell where there is no number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = columns_of(document)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(["" if value is None else value for value in row])
    return text.getvalue()
