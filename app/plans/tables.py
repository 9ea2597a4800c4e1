"""Tables of an explained plan."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_assumptions, print_title, strategy_text
from app.answers.tables.memory import chance
from app.plans.schemas import ExplainDocument
from app.text.terminal import plain_table
from documents.quantities import GIB, seconds
from documents.sentences import Sentence, joined, word

SHOWN = 12
DECIDING = 1e-3  # smallest change of the step time that is shown, as a fraction


def print_explained(console: Console, document: ExplainDocument) -> None:
    job, estimate = document.job, document.estimate
    print_assumptions(console, (), document.warnings)
    print_title(console, job, document.strategy)
    console.print(Sentence("{} a step. {}", seconds(estimate.step_time_s), document.bound_by), markup=False)
    if document.would_fit is not None:
        console.print(Sentence("It does not fit. {}", document.would_fit), style="red", markup=False)
    console.print(document.best_change, markup=False)
    other = document.other
    if other is not None:
        tie = Sentence("; that is less than can be told apart") if other.is_tie else ""
        proof = Sentence("proved best of the search") if document.proved_best else Sentence("found before the search was cut")
        console.print(
            Sentence(
                "Beside it: {} ({}), {}, {:+.1%}{} ({}). {}",
                strategy_text(other.strategy),
                other.changes,
                seconds(other.step_time_s),
                other.difference_fraction,
                tie,
                proof,
                other.why,
            ),
            markup=False,
        )
        _print_turning_points(console, document)
    console.print()
    table = plain_table("one change", ">step", ">difference", ">GiB", ">sure")
    for row in document.changes[:SHOWN]:
        table.add_row(
            row.change,
            seconds(row.step_time_s),
            f"{row.delta_fraction:+.1%}",
            f"{row.peak_memory_bytes / GIB:.1f}",
            chance(row.fits_probability),
        )
    console.print(table)
    if len(document.changes) > SHOWN:
        console.print(Sentence("and {} more; --json lists them all", len(document.changes) - SHOWN), style="dim")
    console.print()
    table = plain_table("a number 10 % better, or worse", ">step, better", ">worse")
    for entry in document.sensitivity:
        if max(abs(entry.better_delta_fraction), abs(entry.worse_delta_fraction)) >= DECIDING:
            table.add_row(word(entry.quantity), f"{entry.better_delta_fraction:+.1%}", f"{entry.worse_delta_fraction:+.1%}")
    console.print(table)


def _print_turning_points(console: Console, document: ExplainDocument) -> None:
    if document.turning_points:
        found = joined(
            ", ", (Sentence("{} x {:.2f}", word(point.quantity), point.factor) for point in document.turning_points[:4])
        )
        console.print(Sentence("Their order turns with {}.", found), markup=False)
    else:
        console.print(Sentence("No number turns their order within a factor of three."))
