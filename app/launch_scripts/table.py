"""Output of ``meshplan tune`` as text: prices of the script and of the best plan, and the lines to change."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from app.answers.schemas import EstimateNumbers
from app.answers.tables.estimate import evidence_sentences, print_assumptions, strategy_text
from app.answers.tables.memory import chance
from app.language.choice import said
from app.launch_scripts.schemas import NotUnderstood, TuneDocument
from app.text.terminal import write_text
from documents.quantities import gibibytes, seconds
from documents.sentences import Sentence, joined, word

SHOWN_REMARKS = 20


def print_tuning(console: Console, document: TuneDocument) -> None:
    """Print the answer; `patch` accepts the printed difference."""
    print_ignored(console, document.ignored)
    print_assumptions(console, document.assumptions, document.warnings)
    job = document.job
    console.print(
        Sentence(
            "{} on {:,} x {}, sequence {:,}, batch {:,}, {}, read as {}",
            job["model"]["name"],
            job["cluster"]["num_devices"],
            job["cluster"]["hardware"],
            job["training"]["seq_length"],
            job["training"]["global_batch_size"],
            job["training"]["precision"],
            document.target,
        ),
        markup=False,
    )
    print_not_understood(console, document.not_understood)
    console.print(
        Sentence("Yours: {}: {}", strategy_text(document.strategy), _numbers(document.estimate)), markup=False, style="bold"
    )
    for sentence in document.violations:
        console.print(Sentence("Your plan cannot run: {}", sentence), markup=False, style="yellow")
    best = document.best
    if best is None:
        console.print(document.nearest or Sentence("No plan fits."), markup=False, style="bold")
        return
    if not document.diff and document.kept is None:
        console.print(Sentence("Nothing is to change: no plan for the same model, batch and devices is faster."), markup=False)
        return
    gain = "" if document.speedup is None else f", {document.speedup:.2f}x"
    console.print(
        Sentence(
            "The best for the same model, batch and devices: {}: {}{}",
            strategy_text(best.strategy),
            _numbers(best.estimate),
            gain,
        ),
        markup=False,
        style="bold",
    )
    for sentence in [*evidence_sentences(best.estimate, job), *filter(None, (document.why, document.tie))]:
        console.print(sentence, markup=False)
    if best.stopped_by:
        console.print(Sentence("The search was cut by {}: better plans may exist.", word(best.stopped_by)), markup=False)
    if document.kept is not None:
        console.print(document.kept, markup=False, style="bold")
        return
    console.print(Sentence("Change these lines:"), markup=False)
    write_text(document.diff)


def print_ignored(console: Console, entries: Sequence[NotUnderstood]) -> None:
    """Print, in front of an answer, what its price leaves out."""
    if entries:
        names = joined(", ", (entry.text for entry in entries))
        console.print(
            Sentence("Priced without {}, as asked, so whether it fits is not known.", names), markup=False, style="bold yellow"
        )


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
