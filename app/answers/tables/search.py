"""The answer of a search as text: headline, ranked plans, why the rest was rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from app.answers.schemas import Baseline, EstimateNumbers, Plan, SearchDocument
from app.answers.tables.estimate import evidence_sentences, print_assumptions, strategy_text, train_days
from app.text.quantities import GIB, column_seconds, count, days, percent, seconds
from app.text.terminal import WIDE, plain_table

SHOWN_PLANS = 10
SHOWN_REJECTIONS = 12


def print_search(console: Console, document: SearchDocument) -> None:
    """The answer of ``meshplan search`` for a person."""
    print_assumptions(console, document.assumptions, document.warnings)
    job = document.job
    console.print(
        f"{job['model']['name']} on {job['cluster']['num_devices']:,} x {job['cluster']['hardware']}, "
        f"sequence {job['training']['seq_length']:,}, batch {job['training']['global_batch_size']:,}, "
        f"{job['training']['precision']}, target {job['software']['target']}",
        markup=False,
    )
    plans = document.plans
    if plans:
        console.print(_headline(plans[0], document), style="bold", markup=False)
        for sentence in evidence_sentences(plans[0].estimate, job):
            console.print(sentence, markup=False)
    console.print(_counts(document), markup=False)
    if plans:
        console.print()
        console.print(_plans_table(plans[:SHOWN_PLANS], job, wide=console.width >= WIDE))
        if len(plans) > SHOWN_PLANS:
            console.print(f"and {len(plans) - SHOWN_PLANS} more; --json or --save-dir lists them all", style="dim")
        console.print()
        _print_explanation(console, plans[0], document.baseline)
    elif document.nearest:
        console.print(document.nearest, markup=False, style="bold")
    _print_rejections(console, document)


def _headline(best: Plan, document: SearchDocument) -> str:
    estimate = best.estimate
    parts = [f"{seconds(estimate.step_time_s)} a step", f"{count(estimate.tokens_per_s)} tokens/s"]
    if estimate.mfu_fraction is not None:
        parts.append(f"MFU {percent(estimate.mfu_fraction)}")
    headline = f"Best: {strategy_text(best.strategy)}: {', '.join(parts)}"
    baseline = document.baseline
    if baseline is None or baseline.speedup_fraction is None:
        return headline
    whose = "your plan" if baseline.source == "given" else "the usual first plan"
    return f"{headline}; {1 + baseline.speedup_fraction:.2f}x the speed of {whose} ({strategy_text(baseline.strategy)})"


def _counts(document: SearchDocument) -> str:
    counts, timing, proof = document.counts, document.timing, document.proof
    seen = "enumerated" if counts.sampled is None else f"seen in {counts.sampled:,} trials"
    simulated = "" if counts.simulated is None else f"{counts.simulated:,} simulated, "
    text = (
        f"{counts.enumerated:,} strategies {seen}, {counts.legal:,} legal and scored, {counts.fits_memory:,} fit, "
        f"{simulated}in {timing.total_s:.1f} s"
    )
    if proof.stopped_by:
        return f"{text}; cut by {proof.stopped_by.replace('_', ' ')}, so better plans may exist"
    if counts.sampled is not None:
        return f"{text}; nothing is proved, as most of the space is unseen"
    return f"{text}; best of the whole {proof.scope}" if proof.proved_best else text


def _plans_table(plans: Sequence[Plan], job: Mapping[str, Any], *, wide: bool) -> Table:
    limit = plans[0].estimate.memory_limit_bytes / GIB
    times = column_seconds(plan.estimate.step_time_s for plan in plans)
    with_days = job["training"]["train_tokens"] is not None
    headers = [">#", "strategy", ">step", ">tokens/s", *([">days"] if with_days else []), ">MFU", f">GiB of {limit:.1f}"]
    table = plain_table(*headers, *(["bound by"] if wide else []))
    for plan, step_time in zip(plans, times, strict=True):
        estimate = plan.estimate
        duration = train_days(estimate, job)
        cells = [str(plan.rank), strategy_text(plan.strategy), step_time, count(estimate.tokens_per_s)]
        cells += [days(duration).removesuffix(" d")] if duration is not None else []
        cells += ["" if estimate.mfu_fraction is None else percent(estimate.mfu_fraction)]
        cells += [f"{estimate.peak_memory_bytes / GIB:.1f}"]
        cells += [_bound(estimate)] if wide else []
        table.add_row(*cells, style="bold" if plan.rank == 1 else None)
    return table


def _bound(estimate: EstimateNumbers) -> str:
    name = estimate.bottleneck
    share = estimate.time_breakdown_s[name] / estimate.step_time_s
    return f"{name.replace('_', ' ')} {share:.0%}"


def _print_explanation(console: Console, best: Plan, baseline: Baseline | None) -> None:
    explanation = best.explanation
    why = None if baseline is None else baseline.why
    for sentence in (explanation.bound_by, explanation.next_plan, explanation.one_change, why):
        if sentence:
            console.print(sentence, markup=False)
    where = ", ".join(best.launchable_on) or "no public release; --target names a framework to plan for"
    console.print(f"Plan 1 can be launched on: {where}.", markup=False)


def _print_rejections(console: Console, document: SearchDocument) -> None:
    rejections, counts = document.rejections, document.counts
    too_large = counts.legal - counts.fits_memory
    if not rejections and not too_large:
        return
    table = plain_table("why the rest was rejected", ">strategies", "for instance")
    if too_large:
        table.add_row("memory", f"{too_large:,}", "legal, but the peak is above the limit")
    for rejection in rejections[:SHOWN_REJECTIONS]:
        table.add_row(rejection.rule.replace("_", " "), f"{rejection.count:,}", rejection.example)
    for rejection in rejections[SHOWN_REJECTIONS:]:
        table.add_row(rejection.rule.replace("_", " "), f"{rejection.count:,}", "")
    console.print()
    console.print(table)
