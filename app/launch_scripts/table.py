"""Output of ``meshplan tune`` as text: prices of the script and of the best plan, and the lines to change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from app.answers.schemas import EstimateNumbers
from app.answers.tables.estimate import evidence_sentences, print_assumptions
from app.answers.tables.memory import chance
from app.answers.tables.summary import (
    Row,
    assumption_rows,
    job_text,
    labelled,
    memory_line,
    more_text,
    print_answer,
    print_ignored,
    step_text,
    warning_rows,
)
from app.language.choice import said
from app.launch_scripts.schemas import NotUnderstood, ScriptChange, TuneDocument, TunedPlan
from app.text.terminal import write_text
from documents.quantities import gibibytes, percent, seconds
from documents.sentences import Sentence, joined, word

SHOWN_REMARKS = 20
SHOWN_CHANGES = 3


def print_tuning(console: Console, document: TuneDocument, shown: Collection[str] | None = None) -> None:
    """The answer of ``meshplan tune`` for a person: a dozen lines, then the sections ``shown`` (``None``: all)."""
    print_ignored(console, [argument.text for argument in document.ignored])
    print_answer(console, document, job_text(document.job, document.target), _rows(document), _PRINTED, shown)


def _rows(document: TuneDocument) -> Iterator[Row]:
    best = document.best
    if best is None:
        yield Sentence("Run"), document.nearest or Sentence("No plan fits.")
    elif document.diff:
        yield Sentence("Run"), best.strategy.name
    else:
        yield Sentence("Run"), document.kept or Sentence("your plan: no plan for the same model, batch and devices is faster")
    yield from warning_rows(document.warnings)
    if best is not None:
        yield Sentence("Step"), step_text(best.estimate)
        yield Sentence("Memory"), memory_line(best.estimate, document.job)
    yield Sentence("Yours"), _own_text(document)
    yield from labelled("", [Sentence("Your plan cannot run: {}", sentence) for sentence in document.violations[:1]])
    if best is not None and document.diff:
        yield Sentence("Change"), changes_text(document.changes)
    if best is not None:
        yield Sentence("Proof"), proof_text(document, best)
    yield from assumption_rows(document.assumptions)
    passed = len(document.not_understood)
    then: list[str] = [Sentence("{} parts of the script were not understood: --show passed", passed)] if passed else []
    if document.diff:
        then.append(Sentence("--output FILE writes the changed script; --show diff prints the lines"))
    else:
        then.append(more_text())
    yield from labelled(Sentence("Next"), then)


def _own_text(document: TuneDocument) -> str:
    """The script's own plan with its numbers, and the gain over it."""
    own = Sentence("{}: {}", document.strategy.name, _numbers(document.estimate))
    if document.tie is not None:
        return Sentence("{}; not measurably slower: --show evidence", own)
    if document.speedup is None or not document.diff:
        return own
    if document.speedup_error_fraction is None:
        return Sentence("{}; the gain is {:.2f}x", own, document.speedup)
    return Sentence("{}; the gain is {:.2f}x (± {})", own, document.speedup, percent(document.speedup_error_fraction))


def changes_text(changes: Sequence[ScriptChange]) -> str:
    """The arguments that change, on one line."""
    shown: list[str] = []
    for change in changes[:SHOWN_CHANGES]:
        if change.now is None:
            shown.append(Sentence("without {}", change.argument))
        elif change.was is None:
            shown.append(f"{change.argument} {change.now}".strip())
        else:
            shown.append(f"{change.argument} {change.was} -> {change.now}")
    more = len(changes) - SHOWN_CHANGES
    text = joined(", ", shown)
    return Sentence("{}, and {} more", text, more) if more > 0 else text


def proof_text(document: TuneDocument, best: TunedPlan) -> str:
    """What is proved of the plan to run."""
    if best.stopped_by:
        return Sentence("nothing is proved: cut by {}, so better plans may exist", word(best.stopped_by))
    if not document.diff:
        return Sentence("the search found none that is faster; it proves its own plans, of which yours is none")
    if best.proved_best:
        return Sentence("proved the fastest for this model, batch, devices and target")
    return Sentence("another plan is proved the fastest; this one ties with it")


def _print_evidence(console: Console, document: TuneDocument) -> None:
    if document.best is not None and document.diff:
        for sentence in (*evidence_sentences(document.best.estimate, document.job), *filter(None, (document.why, document.tie))):
            console.print(sentence, markup=False)


def _print_diff(console: Console, document: TuneDocument) -> None:
    if document.diff:
        console.print(Sentence("Change these lines:"), markup=False)
        write_text(document.diff)


def print_not_understood(console: Console, passed: list[NotUnderstood]) -> None:
    """Print the parts of the script that were passed over, with their lines."""
    if passed:
        console.print(Sentence("Not understood, and passed over"))
    for entry in passed[:SHOWN_REMARKS]:
        where = "" if entry.line is None else Sentence("line {}: ", entry.line)
        console.print(
            Text(said(Sentence("  {}{}{}{}", where, entry.text, ": " if entry.text else "", entry.reason)), style="dim"),
            soft_wrap=True,
        )
    if len(passed) > SHOWN_REMARKS:
        console.print(Sentence("  and {} more; --json lists them all", len(passed) - SHOWN_REMARKS), style="dim")


def _numbers(estimate: EstimateNumbers | None) -> str:
    if estimate is None:
        return Sentence("it has no price")
    limit, sure = gibibytes(estimate.memory_limit_bytes), chance(estimate.fits_probability)
    fit = "" if estimate.fits is not False else Sentence(", {} sure to fit into {}", sure, limit)
    return Sentence("{}, {}{}", seconds(estimate.step_time_s), gibibytes(estimate.peak_memory_bytes), fit)


_PRINTED: Mapping[str, Callable[[Console, TuneDocument], None]] = {
    "warnings": lambda console, document: print_assumptions(console, (), document.warnings),
    "passed": lambda console, document: print_not_understood(console, document.not_understood),
    "evidence": _print_evidence,
    "assumptions": lambda console, document: print_assumptions(console, document.assumptions, ()),
    "diff": _print_diff,
}
SECTIONS = tuple(_PRINTED)
