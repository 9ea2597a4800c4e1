"""Results of fits and errors of predictions, as tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console

from app.calibrations.outcome import errors_of, factor_sentence, free, learned_fraction, warnings
from app.language.choice import said
from app.text.terminal import WIDE, plain_table
from calibration.procedure.calibrate import SiteOutcome
from calibration.validation.predictions import ValidationReport, ValidationRow
from documents.quantities import percent, seconds
from documents.sentences import Sentence, joined, word

LEARNED_FROM = 0.05  # smallest share of a removed spread that counts as learned
SHOWN_WORST = 5
SHOWN_REASONS = 5


def print_outcome(console: Console, outcome: SiteOutcome, path: Path) -> None:
    calibration = outcome.calibration
    number = len(outcome.fitted.observations)
    console.print(Sentence("{} runs of {} on {}", number, calibration.stack, calibration.hardware), style="bold", markup=False)
    for name, reason in outcome.refused:
        console.print(Sentence("  refused {}: {}", name, reason), markup=False)
    table = plain_table("constant", ">before", ">now", ">spread before", ">spread now", ">learned")
    for entry in free(outcome):
        learned = learned_fraction(entry)
        table.add_row(
            entry.name,
            f"{entry.prior:.4g}",
            f"{entry.value:.4g}",
            percent(entry.prior_log_spread),
            percent(entry.log_spread),
            percent(learned, 0) if learned >= LEARNED_FROM else "nothing",
        )
    console.print()
    console.print(table)
    errors = plain_table("step time", ">median error", ">mean", ">bias")
    by = Sentence("model shape") if outcome.left_out_by == "architecture" else "run"
    for title, values in (
        (Sentence("shipped calibration"), outcome.base_log_errors),
        (Sentence("yours, each {} left out", by), outcome.left_out),
        (Sentence("yours, fitted"), outcome.fitted.log_errors),
    ):
        shown = errors_of(values)
        errors.add_row(
            title, *map(percent, (shown.median_abs_error_fraction, shown.mean_abs_error_fraction, shown.bias_fraction))
        )
    console.print()
    console.print(errors)
    console.print(f"\n{factor_sentence(outcome.factor)}", markup=False)
    for sentence in warnings(outcome):
        console.print(Sentence("Warning: {}", sentence), markup=False, style="yellow")
    console.print(
        Sentence("\nWritten to {} ({}); use it with --calibration {}", path, calibration.fingerprint, path), markup=False
    )


def print_validation(console: Console, report: ValidationReport, *, with_rows: bool = False, with_flags: bool = False) -> None:
    console.print(Sentence("Predicted / measured - 1 (median, mean and p90 of its size; bias: its median)"))
    times = plain_table("step time of", ">runs", ">median", ">mean", ">p90", ">bias", ">in interval")
    memory = plain_table("memory of", ">runs", ">median", ">mean")
    for name, errors in report.summary.items():
        kind = word(name)
        usual = (errors.median_abs_error_fraction, errors.mean_abs_error_fraction, errors.p90_abs_error_fraction)
        times.add_row(kind, str(errors.count), *map(_percent, (*usual, errors.bias_fraction, errors.coverage_fraction)))
        if errors.memory_count:
            usual_memory = (errors.memory_median_abs_error_fraction, errors.memory_mean_abs_error_fraction)
            memory.add_row(kind, str(errors.memory_count), *map(_percent, usual_memory))
    console.print(times)
    if memory.row_count:
        console.print()
        console.print(memory)
    _print_rows(console, report, limit=None if with_rows else SHOWN_WORST)
    if with_flags:
        _print_flags(console, report)
    _print_refused(console, report)


def _print_flags(console: Console, report: ValidationReport) -> None:
    """Print the flags of every predicted run: read, without effect, assumed, and not understood."""
    for row in report.rows:
        if row.refused:
            continue
        console.print(f"\n{row.id}", style="bold", markup=False)
        table = plain_table("", "flag", "")
        for title, told in (
            ("read", row.flags.read),
            (Sentence("no effect"), row.flags.no_effect),
            ("assumed", row.flags.assumed),
        ):
            for number, each in enumerate(told):
                table.add_row("" if number else title, each.flag, each.meaning)
        for number, flag in enumerate(row.flags.not_understood):
            table.add_row("" if number else Sentence("not understood"), flag, "")
        console.print(table)
    unknown = Counter(flag for row in report.rows for flag in row.flags.not_understood)
    if unknown:
        listed = joined(", ", (Sentence("{} ({})", flag, number) for flag, number in unknown.most_common()))
        console.print(Sentence("\nNot understood, by runs: {}", listed), markup=False)
    else:
        console.print(Sentence("\nNo flag is not understood."))


def _print_rows(console: Console, report: ValidationReport, limit: int | None) -> None:
    """Print the runs with the largest errors, or all in the order of the file."""
    rows = [row for row in report.rows if row.error_fraction is not None]
    if limit is not None:
        rows = sorted(rows, key=lambda row: -abs(row.error_fraction or 0.0))[:limit]
    if not rows:
        return
    wide = console.width >= WIDE
    what = "run" if limit is None else Sentence("furthest off")
    table = plain_table(what, ">predicted", *([">80 % interval"] if wide else []), ">measured", ">error", ">memory error")
    for row in rows:
        table.add_row(
            row.id,
            _seconds(row.predicted_step_time_s),
            *([_interval(row)] if wide else []),
            _seconds(row.measured_step_time_s),
            _percent(row.error_fraction),
            _percent(row.memory_error_fraction),
        )
    console.print()
    console.print(table)


def _print_refused(console: Console, report: ValidationReport) -> None:
    refused: list[ValidationRow] = [row for row in report.rows if row.refused]
    if not refused:
        return
    console.print(Sentence("\n{} of {} runs are not predicted:", len(refused), len(report.rows)))
    reasons = Counter(row.refused for row in refused)
    for reason, number in reasons.most_common(SHOWN_REASONS):
        console.print(f"  {number} x {said(reason or '')}", markup=False)
    if len(reasons) > SHOWN_REASONS:
        console.print(Sentence("  and {} other reasons; --json lists them all", len(reasons) - SHOWN_REASONS))


def _interval(row: ValidationRow) -> str:
    return "" if row.low_s is None or row.high_s is None else Sentence("{} to {}", _seconds(row.low_s), _seconds(row.high_s))


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else percent(fraction)


def _seconds(value: float | None) -> str:
    return "" if value is None else seconds(value)
