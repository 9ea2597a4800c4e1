"""The first lines of an answer: what to run, its time and memory, what was assumed, and the command that comes next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.answers.assumptions import brief
from app.answers.delivery_schemas import DeliverySummary
from app.answers.schemas import EstimateNumbers
from app.answers.tables.memory import chance
from app.language.choice import said
from documents.quantities import GIB, count, dashed_span, percent, seconds, short_count
from documents.sentences import Sentence, joined
from hardware_profiles.catalogue import shown_name

Row = tuple[str, str]
DocumentT = TypeVar("DocumentT")

SHOWN_ASSUMPTIONS = 3
SHOWN_WARNINGS = 2
_CHOICES = ("search.",)  # fields that a search decides; the others are facts of the job


def print_answer(
    console: Console,
    document: DocumentT,
    head: str,
    rows: Iterable[Row],
    sections: Mapping[str, Callable[[Console, DocumentT], None]],
    shown: Collection[str] | None,
    after_rows: Callable[[Console, DocumentT], None] = lambda console, document: None,
) -> None:
    """Print the job, the lines, what comes after them, then the sections ``shown`` (``None``: all)."""
    console.print(head, markup=False)
    print_rows(console, rows)
    after_rows(console, document)
    for name in sections if shown is None else shown:
        sections[name](console, document)


def print_rows(console: Console, rows: Iterable[Row]) -> None:
    """Print the lines; the first is bold."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for index, (label, text) in enumerate(rows):
        table.add_row(label, Text(said(text)), style="bold" if index == 0 else None)
    console.print(table)


def print_ignored(console: Console, arguments: Collection[str]) -> None:
    """Print, in front of an answer, the arguments of a script that its price leaves out."""
    if arguments:
        names = joined(", ", arguments)
        console.print(
            Sentence("Priced without {}, as asked, so whether it fits is not known.", names), markup=False, style="bold yellow"
        )


def job_text(job: Mapping[str, Any], target: str | None = None) -> str:
    """The job on one line."""
    return Sentence(
        "{} on {:,} x {}, sequence {:,}, batch {:,}, {}, target {}",
        job["model"]["name"],
        job["cluster"]["num_devices"],
        shown_name(job["cluster"]["hardware"]),
        job["training"]["seq_length"],
        job["training"]["global_batch_size"],
        _precision(job["training"]),
        target or job["software"]["target"],
    )


def _precision(training: Mapping[str, Any]) -> str:
    """The precision, with the recipe of FP8 where it is known."""
    precision, recipe = training["precision"], training.get("fp8_recipe")
    return f"{precision} ({recipe})" if recipe is not None and precision == "fp8" else str(precision)


def step_text(estimate: EstimateNumbers) -> str:
    """Step time and tokens per second, with their intervals."""
    low_s, high_s = estimate.step_time_low_s, estimate.step_time_high_s
    step = seconds(estimate.step_time_s)
    if low_s is None or high_s is None:
        return Sentence("{}, {} tokens/s, interval unknown", step, *short_count(estimate.tokens_per_s))
    tokens = estimate.tokens_per_s * estimate.step_time_s
    rates = short_count(estimate.tokens_per_s, tokens / high_s, tokens / low_s)
    text = Sentence("{} (80 %: {}), {} tokens/s ({})", step, dashed_span(low_s, high_s), *rates)
    return Sentence("{}, extrapolated", text) if estimate.evidence.extrapolated else text


def memory_line(estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The peak, its limit, and the probability to fit; for a plan that does not fit, the limit that it was judged by."""
    peak, limit = estimate.peak_memory_bytes / GIB, estimate.memory_limit_bytes / GIB
    sure = chance(estimate.fits_probability)
    if estimate.fits is None:
        return Sentence("{:.1f} of {:.1f} GiB, whether it fits is not known", peak, limit)
    if estimate.fits:
        return Sentence("{:.1f} of {:.1f} GiB, fits with {}", peak, limit, sure)
    return Sentence(
        "{:.1f} GiB DOES NOT FIT: the limit is {:.1f} GiB ({:.1f} GiB, less what makes a fit {:g} % sure); fits with {}",
        peak,
        estimate.fit_limit_bytes / GIB,
        limit,
        100 * job["search"]["fit_confidence"],
        sure,
    )


def assumption_rows(assumptions: Sequence[str], most: int = SHOWN_ASSUMPTIONS) -> list[Row]:
    """The assumptions that move the answer most. Those of a job come in that order; what a search decides is left out."""
    facts = [sentence for sentence in assumptions if not sentence.startswith(_CHOICES)]
    shown = [brief(sentence) for sentence in facts[:most]]
    return labelled(Sentence("Assumed"), shown)


def warning_rows(warnings: Sequence[str]) -> list[Row]:
    """The first warnings, and how many are left."""
    shown = list(warnings[:SHOWN_WARNINGS])
    if len(warnings) > SHOWN_WARNINGS:
        shown[-1] = Sentence("{} (and {} more: --show warnings)", shown[-1], len(warnings) - SHOWN_WARNINGS)
    return labelled(Sentence("Warning"), shown)


def more_text(first: str | None = None) -> str:
    """What comes next, and how to see the rest of the answer."""
    rest = Sentence("--details prints the rest")
    return rest if first is None else Sentence("{}; {}", first, rest)


def labelled(label: str, texts: Iterable[str]) -> list[Row]:
    """Rows under one label."""
    return [(label if index == 0 else "", text) for index, text in enumerate(texts)]


def delivered_text(delivery: DeliverySummary, estimate: EstimateNumbers) -> str:
    """Tokens a day with the failures of the site, with the interval of the step time."""
    low_s, high_s = estimate.step_time_low_s, estimate.step_time_high_s
    rate = delivery.delivered_tokens_per_day
    text = Sentence("{} tokens a day", count(rate))
    if low_s is not None and high_s is not None:
        step_s = estimate.step_time_s
        text = Sentence(
            "{} (80 %: {} to {})", text, count(_rounded(rate * step_s / high_s)), count(_rounded(rate * step_s / low_s))
        )
    return Sentence("{}, {} of the step's", text, percent(delivery.effective_time_fraction))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
