"""An estimate as tables: parts of the time and the memory of one strategy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.answers.schemas import EstimateDocument, EstimateNumbers
from app.answers.step_schemas import SoftwareMoves
from app.answers.strategies import StrategyDocument
from app.answers.tables.memory import memory_sentence, memory_text
from app.answers.tables.memory_plan import print_memory_plan
from app.answers.tables.simulation import print_simulation
from app.answers.tables.summary import (
    SHOWN_ASSUMPTIONS,
    Row,
    assumption_rows,
    delivered_text,
    job_text,
    labelled,
    memory_line,
    more_text,
    print_answer,
    print_ignored,
    print_rows,
    step_text,
    warning_rows,
)
from app.calibrations.next_run_lines import print_next_runs
from app.language.choice import said
from app.text.terminal import plain_table
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import PEAK_QUANTILE, expert_spread
from cost_models.shapes.router_balance import RouterBalance
from documents.quantities import column_seconds, count, days, figures, gibibytes, percent, seconds
from documents.sentences import Sentence, joined, word
from hardware_profiles.catalogue import shown_name

SECONDS_PER_DAY = 86_400
FAR = Sentence("Measured runs are far from this job.")
WHICH_RUNS = Sentence("--show runs names those to make at your site.")
CALIBRATE = Sentence("`meshplan calibrate` on runs of your site brings it near.")


def train_days(estimate: EstimateNumbers, job: Mapping[str, Any]) -> float | None:
    tokens = job["training"]["train_tokens"]
    return tokens / estimate.tokens_per_s / SECONDS_PER_DAY if tokens else None


def days_text(duration: float, estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The days of a training, with the interval of the step time."""
    low_s, high_s = estimate.step_time_low_s, estimate.step_time_high_s
    text = Sentence("{} for {} tokens", days(duration), count(job["training"]["train_tokens"]))
    if low_s is None or high_s is None:
        return text
    ends = [figures(duration * end_s / estimate.step_time_s) for end_s in (low_s, high_s)]
    return Sentence("{} (80 %: {} to {} d)", text, *ends)


def bound_text(estimate: EstimateNumbers) -> str:
    """The largest parts of the step."""
    parts = _largest_first(estimate.time_breakdown_s)[:3]
    return joined(", ", (Sentence("{} {:.0%}", _words(name, "_s"), value / estimate.step_time_s) for name, value in parts))


def print_assumptions(console: Console, assumptions: Sequence[str], warnings: Sequence[str]) -> None:
    if assumptions:
        console.print(Sentence("Assumed"))
        for sentence in assumptions:
            console.print(Padding(Text(said(sentence), style="dim"), (0, 0, 0, 2)))
    for sentence in warnings:
        console.print(Sentence("Warning: {}", sentence), markup=False, style="yellow")
    if assumptions or warnings:
        console.print()


def print_doubts(console: Console, assumptions: Sequence[str], warnings: Sequence[str], *, in_full: bool) -> None:
    """Print, behind an answer, the first assumptions and all warnings; ``in_full`` all assumptions."""
    console.print()
    if in_full:
        print_assumptions(console, assumptions, warnings)
        return
    left = len(assumptions) - SHOWN_ASSUMPTIONS
    more = [Sentence("--details prints {} more assumptions", left)] if left > 0 else []
    rows = [*assumption_rows(assumptions), *labelled(Sentence("Warning"), warnings), *labelled(Sentence("Next"), more)]
    print_rows(console, rows)


def print_title(console: Console, job: Mapping[str, Any], strategy: StrategyDocument) -> None:
    """Print the title of an answer about one strategy."""
    cluster = job["cluster"]
    hardware = shown_name(cluster["hardware"])
    title = Sentence("{} on {:,} x {}: {}", job["model"]["name"], cluster["num_devices"], hardware, strategy.name)
    console.print(title, style="bold", markup=False)


def print_estimate(
    console: Console,
    document: EstimateDocument,
    shown: Collection[str] | None = None,
    *,
    is_script: bool = False,
    has_next_run: bool | None = None,
) -> None:
    """The answer of ``meshplan estimate`` for a person: a dozen lines, then the sections ``shown`` (``None``: all).

    ``is_script``: the job is that of a launch script, which ``meshplan tune`` changes. ``has_next_run``: whether runs that would
    bring measured ones near are known; ``None`` where measured ones are near.
    """
    print_ignored(console, document.ignored or ())
    rows = _rows(document, is_script=is_script, has_next_run=has_next_run)
    print_answer(console, document, job_text(document.job), rows, _PRINTED, shown)


def _rows(document: EstimateDocument, *, is_script: bool, has_next_run: bool | None) -> Iterator[Row]:
    job, estimate = document.job, document.estimate
    yield Sentence("Plan"), document.strategy.name
    yield from warning_rows(document.warnings)
    yield Sentence("Step"), step_text(estimate)
    yield Sentence("Memory"), memory_line(estimate, job)
    yield Sentence("Bound by"), bound_text(estimate)
    if document.delivery is not None:
        yield Sentence("Delivered"), delivered_text(document.delivery, estimate)
    duration = train_days(estimate, job)
    if duration is not None and "training.train_tokens" not in job.get("assumed", ()):
        yield Sentence("Training"), days_text(duration, estimate, job)
    yield from assumption_rows(document.assumptions)
    if has_next_run is not None:
        yield Sentence("Trust"), Sentence("{} {}", FAR, WHICH_RUNS if has_next_run else CALIBRATE)
    next_step = Sentence("meshplan search finds the best plan, meshplan explain says what a change gains")
    if is_script:
        next_step = Sentence("meshplan tune changes it for the best plan, meshplan explain says what a change gains")
    elif estimate.fits is False:
        next_step = Sentence("meshplan explain says which change would make it fit")
    yield Sentence("Next"), more_text(next_step)


def _print_evidence(console: Console, document: EstimateDocument) -> None:
    estimate, job = document.estimate, document.job
    duration = train_days(estimate, job)
    training = [] if duration is None else [Sentence("Training: {}.", days_text(duration, estimate, job))]
    fit = Sentence("Memory: {}.", memory_text(estimate, job))
    for sentence in [*training, fit, *evidence_sentences(estimate, job), *_routing_sentences(document)]:
        console.print(sentence, markup=False)


def _print_runs(console: Console, document: EstimateDocument) -> None:
    if document.next_runs is not None:
        advice = Sentence("Make these at your site:") if document.next_runs else CALIBRATE
        console.print(Sentence("{} {}", FAR, advice), style="bold", markup=False)
        print_next_runs(console, document.next_runs)


def _print_table(console: Console, table: Table | None) -> None:
    if table is not None:
        console.print()
        console.print(table)


def _print_simulation(console: Console, document: EstimateDocument) -> None:
    if document.simulation is not None:
        print_simulation(console, document.estimate, document.simulation)


def _print_memory_plan(console: Console, document: EstimateDocument) -> None:
    if document.memory_plan is not None:
        print_memory_plan(console, document.memory_plan)


def evidence_sentences(estimate: EstimateNumbers, job: Mapping[str, Any]) -> list[str]:
    """Sentences on the intervals of step time and peak, with the number of measured runs behind them."""
    low_s, high_s = estimate.step_time_low_s, estimate.step_time_high_s
    if low_s is None or high_s is None:
        return []
    evidence, hardware, stack = estimate.evidence, shown_name(job["cluster"]["hardware"]), job["software"]["stack"]
    interval = Sentence("80 % interval {} to {}", seconds(low_s), seconds(high_s))
    if evidence.num_runs:
        runs = Sentence(
            "{} measured run{} of such models with {} on {}", evidence.num_runs, "s" * (evidence.num_runs > 1), stack, hardware
        )
        found = [Sentence("{}, from {} with up to {:,} devices.", interval, runs, evidence.max_devices)]
    else:
        found = [Sentence("{}, from other hardware, software or kinds of models.", interval)]
    found += [Sentence("Extrapolated: {}.", sentence) for sentence in evidence.extrapolated]
    return [*found, memory_sentence(estimate, job)]


def _routing_sentences(document: EstimateDocument) -> list[str]:
    """Sentences on the expert load at the job's expert-parallel degree."""
    training, moe, ep = document.job["training"], document.job["model"]["moe"], document.strategy.ep
    given, balance = training.get("expert_counts"), training.get("router_balance")  # an older server does not state them
    if moe is None or moe["capacity_factor"]:
        return []
    seconds_of_uneven = document.estimate.uneven_experts_s
    if not (given or balance):
        if not seconds_of_uneven:
            return []
        return [
            Sentence(
                "Routing is not stated: experts are priced as even; as uneven as usual, they would add {:.0%} to the step, "
                "which the upper end of the interval holds.",
                seconds_of_uneven / document.estimate.step_time_s,
            )
        ]
    if balance:
        spread = expert_spread(RouterBalance(balance), moe["num_experts"], moe["num_groups"])
        load, peak = float(spread.load_factor(ep)), float(spread.peak_load_factor(ep))
        return [
            Sentence(
                "Routing ({}): the fullest of {} expert ranks has {:.2f} x the mean, in memory {:.2f} ({:.0%} of the steps); {}.",
                balance,
                ep,
                load,
                peak,
                PEAK_QUANTILE,
                spread.source,
            )
        ]
    counts = ExpertCounts(tuple(map(tuple, given if isinstance(given[0], list) else [given])))
    load, peak = float(counts.load_factor(ep)), float(counts.peak_load_factor(ep))
    return [
        Sentence(
            "Counted routing: the fullest of {} expert ranks has {:.2f} x the mean, in the most uneven layer {:.2f}.",
            ep,
            load,
            peak,
        )
    ]


def _time_table(estimate: EstimateNumbers) -> Table:
    total = estimate.step_time_s
    exposed, masked = _largest_first(estimate.time_breakdown_s), _largest_first(estimate.masked_s)
    times = iter(column_seconds([value for _, value in [*exposed, ("step", total), *masked]]))
    table = plain_table("where the time goes", ">time", ">share")
    for name, value in exposed:
        table.add_row(_words(name, "_s"), next(times), percent(value / total))
    table.add_row(Sentence("step"), next(times), percent(1.0), style="bold")
    for name, _ in masked:
        table.add_row(Sentence("hidden behind it: {}", _words(name, "_s")), next(times), "", style="dim")
    return table


def _memory_table(estimate: EstimateNumbers) -> Table:
    total = estimate.peak_memory_bytes
    table = plain_table("where the memory goes, fullest rank", ">memory", ">share")
    for name, value in _largest_first(estimate.memory_breakdown_bytes):
        table.add_row(_words(name, "_bytes"), gibibytes(value), percent(value / total))
    table.add_row(Sentence("peak"), gibibytes(total), percent(1.0), style="bold")
    table.add_row(Sentence("limit"), gibibytes(estimate.memory_limit_bytes), "", style="dim")
    table.add_row(Sentence("headroom"), gibibytes(estimate.headroom_bytes), "", style="dim" if estimate.fits else "red")
    table.add_row(Sentence("largest peak that fits"), gibibytes(estimate.fit_limit_bytes), "", style="dim")
    table.add_row(Sentence("a monitor shows"), gibibytes(estimate.pooled_peak_bytes), "", style="dim")
    return table


def _software_table(software: SoftwareMoves) -> Table:
    table = plain_table("what software moves, one at a time", "is", ">throughput", ">waiting for the host")
    table.add_row(Sentence("as it is"), "", "", percent(software.host_fraction), style="bold")
    for option in software.options:
        factor = 1.0 + option.gain_fraction
        moves = (1.0 / factor if option.is_on else factor) - 1.0
        other = Sentence("without {}", option.name) if option.is_on else Sentence("with {}", option.name)
        table.add_row(other, "on" if option.is_on else "off", f"{100 * moves:+.1f}%", percent(option.other_host_fraction))
    return table


def _largest_first(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(((name, value) for name, value in parts.items() if value), key=lambda part: -part[1])


def _words(name: str, suffix: str) -> str:
    return word(name.removesuffix(suffix))


_PRINTED: Mapping[str, Callable[[Console, EstimateDocument], None]] = {
    "warnings": lambda console, document: print_assumptions(console, (), document.warnings),
    "evidence": _print_evidence,
    "time": lambda console, document: _print_table(console, _time_table(document.estimate)),
    "memory": lambda console, document: _print_table(console, _memory_table(document.estimate)),
    "software": lambda console, document: _print_table(
        console, None if document.software is None else _software_table(document.software)
    ),
    "simulation": _print_simulation,
    "tensors": _print_memory_plan,
    "runs": _print_runs,
    "assumptions": lambda console, document: print_assumptions(console, document.assumptions, ()),
}
SECTIONS = tuple(_PRINTED)
