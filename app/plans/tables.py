"""Tables of an explained plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from rich.console import Console

from app.answers.tables.estimate import bound_text, evidence_sentences, print_assumptions
from app.answers.tables.memory import chance
from app.answers.tables.summary import (
    Row,
    assumption_rows,
    job_text,
    memory_line,
    more_text,
    print_answer,
    step_text,
    warning_rows,
)
from app.plans.schemas import ExplainDocument
from app.text.terminal import plain_table
from documents.quantities import GIB, seconds
from documents.sentences import Sentence, joined, word
from frameworks.target import ANY

SHOWN = 12
SHOWN_ASSUMPTIONS = 2  # the reasons take the place of the third
DECIDING = 1e-3  # smallest change of the step time that is shown, as a fraction


def print_explained(console: Console, document: ExplainDocument, shown: Collection[str] | None = None) -> None:
    """The answer of ``meshplan explain`` for a person: a dozen lines, then the sections ``shown`` (``None``: all)."""
    print_answer(console, document, job_text(document.job), _rows(document), _PRINTED, shown)


def _rows(document: ExplainDocument) -> Iterator[Row]:
    estimate, other = document.estimate, document.other
    yield Sentence("Plan"), document.strategy.name
    yield from warning_rows(document.warnings)
    yield Sentence("Step"), step_text(estimate)
    yield Sentence("Memory"), memory_line(estimate, document.job)
    if document.would_fit is not None:
        yield "", document.would_fit
    if document.shards is not None:
        yield Sentence("Shards"), document.shards
    yield Sentence("Bound by"), bound_text(estimate)
    yield Sentence("Change"), change_text(document)
    if other is not None:
        tie = Sentence(", a tie") if other.is_tie else ""
        name = min(other.strategy.name, other.changes, key=len)
        yield Sentence("Beside"), Sentence("{}: {}, {:+.1%}{}", name, seconds(other.step_time_s), other.difference_fraction, tie)
        if other.reasons is not None:
            yield "", other.reasons
    if document.searched_target is not None:
        yield Sentence("Proof"), proof_text(document, document.searched_target)
    yield from assumption_rows(document.assumptions, SHOWN_ASSUMPTIONS)
    yield Sentence("Next"), more_text()


def change_text(document: ExplainDocument) -> str:
    """The fastest change of one dimension, if it gains anything."""
    if not document.changes or document.changes[0].delta_fraction > -DECIDING / 2:
        return document.best_change
    best = document.changes[0]
    fits = Sentence("fits with {}", chance(best.fits_probability)) if best.fits else Sentence("does not fit")
    peak = best.peak_memory_bytes / GIB
    return Sentence("{}: step {:+.1%}, {:.1f} GiB, {}", best.change, best.delta_fraction, peak, fits)


def proof_text(document: ExplainDocument, target: str) -> str:
    """Which plan is proved the fastest that the target takes."""
    other = document.other
    if not document.proved_best:
        return Sentence("nothing is proved: the search was cut")
    if other is None or (document.estimate.fits and other.step_time_s >= document.estimate.step_time_s):
        return Sentence("this plan is the fastest {}", _space(target))
    return Sentence("the plan beside it is the fastest {}", _space(target))


def _space(target: str) -> Sentence:
    return Sentence("that physics allows") if target == ANY.name else Sentence("that {} takes", target)


def _print_evidence(console: Console, document: ExplainDocument) -> None:
    for sentence in (document.bound_by, *evidence_sentences(document.estimate, document.job)):
        console.print(sentence, markup=False)


def _print_other(console: Console, document: ExplainDocument) -> None:
    other = document.other
    if other is not None:
        described = Sentence("Beside it: {} ({}).", other.strategy.name, other.changes)
        console.print(Sentence("{} {}", described, other.why), markup=False)
        _print_turning_points(console, document)


def _print_changes(console: Console, document: ExplainDocument) -> None:
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


def _print_sensitivity(console: Console, document: ExplainDocument) -> None:
    console.print()
    table = plain_table("a number 10 % better, or worse", ">step, better", ">worse")
    for entry in document.sensitivity:
        if max(abs(entry.better_delta_fraction), abs(entry.worse_delta_fraction)) >= DECIDING:
            table.add_row(
                quantity_text(entry.quantity), f"{entry.better_delta_fraction:+.1%}", f"{entry.worse_delta_fraction:+.1%}"
            )
    console.print(table)


def quantity_text(name: str) -> Sentence:
    """The name of a quantity that was varied; a bandwidth is that of a tier."""
    kind, _, tier = name.partition(".")  # of these, bandwidths alone name a tier
    return Sentence("{} bandwidth", tier) if tier else word(kind)


def _print_turning_points(console: Console, document: ExplainDocument) -> None:
    if document.turning_points:
        found = joined(
            ", ", (Sentence("{} x {:.2f}", quantity_text(point.quantity), point.factor) for point in document.turning_points[:4])
        )
        console.print(Sentence("Their order turns with {}.", found), markup=False)
    else:
        console.print(Sentence("No number turns their order within a factor of three."))


_PRINTED: Mapping[str, Callable[[Console, ExplainDocument], None]] = {
    "warnings": lambda console, document: print_assumptions(console, (), document.warnings),
    "evidence": _print_evidence,
    "beside": _print_other,
    "changes": _print_changes,
    "sensitivity": _print_sensitivity,
    "assumptions": lambda console, document: print_assumptions(console, document.assumptions, ()),
}
SECTIONS = tuple(_PRINTED)
