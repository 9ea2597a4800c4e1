"""Output of ``meshplan tune`` as text: prices of the script and of the best plan, and the lines to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

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
from documents.quantities import dashed_span, gibibytes, percent, seconds
from documents.reading import shown_path
from documents.sentences import Sentence, joined, word

SHOWN_REMARKS = 20
SHOWN_CHANGES = 3
# torchtitan's options begin with a section: its checkpoints are divided anew on loading [torchtitan-2026.08, checkpoint.md].
_OF_CHECKPOINTS = re.compile(r"^(?!parallelism\.).*(model.parallel|pipeline|expert.*parallel|virtual|noop|offset)|^num.layers")
_FIRST = re.compile(r"model.parallel|pipeline|expert.*(parallel|size)|context|data_parallel|micro.?batch|virtual|layer|recompute")


def print_tuning(
    console: Console, document: TuneDocument, shown: Collection[str] | None = None, saved: Path | None = None
) -> None:
    """The answer of ``meshplan tune`` for a person: a dozen lines, then the sections ``shown`` (``None``: all).

    ``saved``: the file that has the changed script.
    """
    print_ignored(console, [argument.text for argument in document.ignored])
    print_answer(console, document, job_text(document.job, document.target), _rows(document, saved), _PRINTED, shown)


def _rows(document: TuneDocument, saved: Path | None) -> Iterator[Row]:
    best = document.best
    if best is None:
        yield Sentence("Run"), document.nearest or Sentence("No plan fits.")
    elif document.diff and document.tie is None:
        yield Sentence("Run"), best.strategy.name
    else:
        none = Sentence("your plan: none for the same model, batch and devices is measurably faster")
        yield Sentence("Run"), document.kept or none
    yield from warning_rows(document.warnings)
    numbers = document.estimate if document.tie is not None else best.estimate if best is not None else None
    if numbers is not None:
        is_kept = document.kept is not None and document.tie is None  # the numbers are of another plan than the script's
        for label, text in ((Sentence("Step"), step_text(numbers)), (Sentence("Memory"), memory_line(numbers, document.job))):
            yield label, Sentence("{}: {}", best.strategy.name, text) if best is not None and is_kept else text
    if best is not None and document.diff and document.tie is not None:
        yield Sentence("Or"), Sentence("{}: {}; no measurable gain: --show evidence", best.strategy.name, _numbers(best.estimate))
    else:
        yield Sentence("Yours"), _own_text(document)
    yield from labelled("", [_refusal(document, sentence) for sentence in document.violations[:1]])
    if best is not None and document.diff:
        yield Sentence("Change"), changes_text(document.changes)
    if best is not None:
        yield Sentence("Proof"), proof_text(document, best)
    yield from assumption_rows(document.assumptions)
    shown = Sentence("--show diff") if document.diff else more_text()
    if document.not_understood:
        more = Sentence("--show passed ({} notes)", len(document.not_understood))
        shown = Sentence("--show diff,passed ({} notes)", len(document.not_understood)) if document.diff else more
    if document.diff and saved is not None:
        shown = Sentence("{} has the changed script; {}", shown_path(saved), shown)
    elif document.diff:
        shown = Sentence("--output FILE writes the change; {}", shown)
    yield Sentence("Next"), shown


def _refusal(document: TuneDocument, sentence: str) -> str:
    """Why the script's own plan does not run: by physics it has no price, by its framework's rules it has one all the same."""
    if document.estimate is None:
        return Sentence("Your plan cannot run: {}", sentence)
    return Sentence("{} would refuse your plan, so that its price is by physics alone: {}", document.target, sentence)


def _own_text(document: TuneDocument) -> str:
    """The script's own plan with its numbers, and the gain over it."""
    own = Sentence("{}: {}", document.strategy.name, _numbers(document.estimate))
    if document.speedup is None or not document.diff:
        return own
    if document.speedup_error_fraction is None:
        return Sentence("{}; the gain is {:.2f}x", own, document.speedup)
    return Sentence("{}; the gain is {:.2f}x (± {})", own, document.speedup, percent(document.speedup_error_fraction))


def changes_text(changes: Sequence[ScriptChange]) -> str:
    """The arguments that change, on one line: those of the layout first, to which checkpoints by rank must be converted."""
    shown: list[str] = []
    for change in sorted(changes, key=lambda each: _FIRST.search(each.argument) is None)[:SHOWN_CHANGES]:
        if change.now is None:
            shown.append(Sentence("without {}", change.argument))
        elif change.was is None:
            shown.append(f"{change.argument} {change.now}".strip())
        else:
            shown.append(f"{change.argument} {change.was} -> {change.now}")
    more = len(changes) - SHOWN_CHANGES
    text: str = joined(", ", shown)
    if more > 0:
        text = Sentence("{}, and {} more", text, more)
    if any(_OF_CHECKPOINTS.search(change.argument) for change in changes):
        return Sentence("{}; convert saved checkpoints first", text)
    return text


def proof_text(document: TuneDocument, best: TunedPlan) -> str:
    """What is proved of the plan to run."""
    if best.stopped_by:
        return Sentence("nothing is proved: cut by {}, so better plans may exist", word(best.stopped_by))
    if best.proved_best:
        return Sentence("proved the fastest for this model, batch, devices and target")
    if not document.diff and document.tie is not None:
        return Sentence("another plan is proved the fastest; yours ties with it")
    if not document.diff:
        return Sentence("the search proves plans of its own, of which yours is none")
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
        console.print(Sentence("Left out of the price, or simplified there"))
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
    low_s, high_s = estimate.step_time_low_s, estimate.step_time_high_s
    step, peak = seconds(estimate.step_time_s), gibibytes(estimate.peak_memory_bytes)
    text = Sentence("{}, peak {}", step, peak)
    if low_s is not None and high_s is not None:
        text = Sentence("{} (80 %: {}), peak {}", step, dashed_span(low_s, high_s), peak)
    if estimate.fits is None:
        return text
    return Sentence("{}, fits with {}", text, chance(estimate.fits_probability))


_PRINTED: Mapping[str, Callable[[Console, TuneDocument], None]] = {
    "warnings": lambda console, document: print_assumptions(console, (), document.warnings),
    "passed": lambda console, document: print_not_understood(console, document.not_understood),
    "evidence": _print_evidence,
    "assumptions": lambda console, document: print_assumptions(console, document.assumptions, ()),
    "diff": _print_diff,
}
SECTIONS = tuple(_PRINTED)
