"""The answer of ``meshplan tune`` as text: what the script costs, what the best costs, and the lines to change."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from app.answers.schemas import EstimateNumbers
from app.answers.tables.estimate import evidence_sentences, print_assumptions, strategy_text
from app.answers.tables.memory import chance
from app.launch_scripts.schemas import NotUnderstood, TuneDocument
from app.text.quantities import gibibytes, seconds
from app.text.terminal import write_text

SHOWN_REMARKS = 20


def print_tuning(console: Console, document: TuneDocument) -> None:
    """Print the answer; `patch` accepts the printed difference."""
    print_assumptions(console, document.assumptions, document.warnings)
    job = document.job
    console.print(
        f"{job['model']['name']} on {job['cluster']['num_devices']:,} x {job['cluster']['hardware']}, "
        f"sequence {job['training']['seq_length']:,}, batch {job['training']['global_batch_size']:,}, "
        f"{job['training']['precision']}, read as {document.target}",
        markup=False,
    )
    print_not_understood(console, document.not_understood)
    console.print(f"Yours: {strategy_text(document.strategy)}: {_numbers(document.estimate)}", markup=False, style="bold")
    for sentence in document.violations:
        console.print(f"Your plan cannot run: {sentence}", markup=False, style="yellow")
    best = document.best
    if best is None:
        console.print(document.nearest or "No plan fits.", markup=False, style="bold")
        return
    if not document.diff:
        console.print("Nothing is to change: no plan for the same model, batch and devices is faster.", markup=False)
        return
    gain = "" if document.speedup is None else f", {document.speedup:.2f}x"
    console.print(
        f"The best for the same model, batch and devices: {strategy_text(best.strategy)}: {_numbers(best.estimate)}{gain}",
        markup=False,
        style="bold",
    )
    for sentence in [*evidence_sentences(best.estimate, job), *filter(None, (document.why, document.tie))]:
        console.print(sentence, markup=False)
    if best.stopped_by:
        console.print(f"The search was cut by {best.stopped_by.replace('_', ' ')}: better plans may exist.", markup=False)
    console.print("Change these lines:", markup=False)
    write_text(document.diff)


def print_not_understood(console: Console, passed: list[NotUnderstood]) -> None:
    """Print the parts of the script that were passed over, with their lines."""
    if passed:
        console.print("Not understood, and passed over")
    for entry in passed[:SHOWN_REMARKS]:
        where = "" if entry.line is None else f"line {entry.line}: "
        console.print(Text(f"  {where}{entry.text}{': ' if entry.text else ''}{entry.reason}", style="dim"), soft_wrap=True)
    if len(passed) > SHOWN_REMARKS:
        console.print(f"  and {len(passed) - SHOWN_REMARKS} more; --json lists them all", style="dim")


def _numbers(estimate: EstimateNumbers | None) -> str:
    if estimate is None:
        return "it has no price"
    limit, sure = gibibytes(estimate.memory_limit_bytes), chance(estimate.fits_probability)
    fit = "" if estimate.fits else f", {sure} sure to fit into {limit}"
    return f"{seconds(estimate.step_time_s)}, {gibibytes(estimate.peak_memory_bytes)}{fit}"
