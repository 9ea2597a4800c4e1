"""The answer of a search as text: headline, ranked plans, reasons of rejections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from app.answers.publication import Publication
from app.answers.recommended import recommended_plan
from app.answers.schemas import (
    Baseline,
    BrokenRuleDocument,
    EstimateNumbers,
    InfeasibleDocument,
    LaunchDocument,
    LeftOut,
    Plan,
    SearchDocument,
    Space,
)
from app.answers.tables.by_tensor import by_tensor_sentences
from app.answers.tables.estimate import evidence_sentences, print_assumptions, train_days
from app.answers.tables.launch import NONE_SAVED, launch_text
from app.answers.tables.memory import chance
from app.answers.tables.summary import (
    Row,
    assumption_rows,
    delivered_text,
    job_text,
    labelled,
    memory_line,
    more_text,
    print_answer,
    step_text,
    warning_rows,
)
from app.text.terminal import WIDE, plain_table
from cost_models.shapes.switches import DEFAULT_FEATURES
from documents.quantities import GIB, column_seconds, count, days, percent, seconds
from documents.sentences import Sentence, joined, word
from frameworks.registry import newer_release
from frameworks.target import ANY
from search.explain.explanation import layers_text
from search.objectives.table import OF_LATTICE
from search.ranking.ties import ties

SHOWN_PLANS = 10
USUAL = frozenset(str(feature.name).lower() for feature in DEFAULT_FEATURES)
SHOWN_REJECTIONS = 12


def print_search(
    console: Console,
    document: SearchDocument,
    shown: Collection[str] | None = None,
    saved: Mapping[str, LaunchDocument] = NONE_SAVED,
) -> None:
    """The answer of ``meshplan search`` for a person: a dozen lines, then the sections ``shown`` (``None``: all).

    ``saved`` are the launch files of the plan to run by path, if the answer is saved.
    """
    rows = _rows(document, saved) if document.plans else warning_rows(document.warnings)
    target = document.job["software"]["target"]
    if any(each.startswith("software.target = ") for each in document.assumptions):
        newer = newer_release(target)
        target = Sentence("{} by default ({} is newer)", target, newer) if newer else Sentence("{} by default", target)
    print_answer(console, document, job_text(document.job, target), rows, _PRINTED, shown, _print_nearest)


def _print_nearest(console: Console, document: SearchDocument) -> None:
    """What stands in the way of a plan, and the nearest jobs that have one."""
    if not document.plans and document.nearest:
        console.print(document.nearest, markup=False, style="bold")
        if document.infeasible is not None and document.infeasible.changes:
            console.print(_changes_table(document.infeasible))
        console.print(more_text(), markup=False)


def _rows(document: SearchDocument, saved: Mapping[str, LaunchDocument]) -> Iterator[Row]:
    """The lines on the plan to run."""
    job, plan = document.job, recommended_plan(document)
    yield Sentence("Run"), Sentence("plan {}: {}", plan.rank, plan.strategy.name)
    yield from warning_rows(document.warnings)
    yield Sentence("Step"), step_text(plan.estimate)
    yield Sentence("Memory"), memory_line(plan.estimate, job)
    if plan.explanation.shards is not None:
        yield Sentence("Shards"), plan.explanation.shards
    if plan.explanation.objective is not None:
        yield Sentence("Objective"), plan.explanation.objective
    if plan.delivery is not None:
        yield Sentence("Delivered"), delivered_text(plan.delivery, plan.estimate)
    if document.baseline is not None:
        yield Sentence("Gain"), gain_text(document.baseline, plan, is_proved=document.proof.proved_best)
    yield from labelled(Sentence("Why"), why_texts(document, plan))
    yield Sentence("Proof"), proof_text(document)
    yield from labelled(Sentence("Beyond"), (*by_tensor_sentences(document), *refinement_sentences(document)))
    yield from assumption_rows(document.assumptions)
    yield Sentence("Next"), more_text(launch_text(plan, saved, document))


def gain_text(baseline: Baseline, plan: Plan, *, is_proved: bool) -> str:
    """The plan's speed over that of the plan to beat."""
    whose = _whose(baseline)
    numbers = baseline.estimate
    if baseline.speedup_fraction is None or not isinstance(numbers, EstimateNumbers):
        return Sentence("{} cannot run: {}", whose.capitalized(), baseline.strategy.name)
    described = Sentence("{} ({}, {})", whose, baseline.strategy.name, seconds(numbers.step_time_s))
    if baseline.source != "rule_of_thumb":  # the job has your plan, and the reasons that of a recipe
        described = Sentence("{} ({})", whose, seconds(numbers.step_time_s))
    if is_proved and numbers.fits and numbers.step_time_s < plan.estimate.step_time_s:
        beyond = Sentence("{}, {}, outside of this lattice", baseline.strategy.name, seconds(numbers.step_time_s))
        described = Sentence("{} ({})", whose, beyond)
    fits = "" if numbers.fits else Sentence(", which does not fit")
    if baseline.error_fraction is None:
        return Sentence("{:.2f}x over {}{}", 1 + baseline.speedup_fraction, described, fits)
    error = Sentence("± {}", percent(baseline.error_fraction))
    if ties(numbers.step_time_s, plan.estimate.step_time_s, baseline.error_fraction):
        error = Sentence("{}, a tie", error)
    return Sentence("{:.2f}x ({}) over {}{}", 1 + baseline.speedup_fraction, error, described, fits)


def _whose(baseline: Baseline) -> Sentence:
    if baseline.publication is not None:
        return Sentence("{}'s published recipe", baseline.publication.vendor)
    return Sentence("your plan") if baseline.source == "given" else Sentence("the usual first plan")


def publication_text(publication: Publication) -> str:
    """The recipe and its source, and what it is published for."""
    script, _, framework = publication.title.rpartition(" of ")
    return Sentence(
        "{} of {}, for {:,} devices, sequence {:,} and batch {:,} ({}): {}",
        script,
        framework,
        publication.num_devices,
        publication.seq_length,
        publication.global_batch_size,
        publication.date,
        publication.source,
    )


def why_texts(document: SearchDocument, plan: Plan) -> Iterator[str]:
    """Why this plan is recommended, where another is as good or faster by prediction."""
    if document.recommended is not None and document.recommended.why is not None:
        yield document.recommended.why


def proof_text(document: SearchDocument) -> str:
    """What is proved, and of which plan."""
    proof, counts = document.proof, document.counts
    if proof.stopped_by:
        cut = word(proof.stopped_by)
        if counts.lattice is not None and counts.enumerated < counts.lattice:
            seen = Sentence("{:,} strategies of a lattice of {:,}", counts.enumerated, counts.lattice)
            return Sentence("nothing is proved: cut by {} after {}, so better plans may exist", cut, seen)
        return Sentence("nothing is proved: cut by {}, so better plans may exist", cut)
    if counts.sampled is not None:
        return Sentence("nothing is proved: {:,} trials leave most of the space unseen", counts.sampled)
    rank = next((plan.rank for plan in document.plans if plan.plan_id == proof.plan_id), 1)
    if proof.proved_best:
        best = Sentence("the fastest") if proof.objective == "step_time" else Sentence("the best by {}", word(proof.objective))
        text = Sentence("plan {} is proved {} of {}", rank, best, _lattice_text(document))
        if proof.places < len(document.plans):
            return Sentence("{}; {} of {} places are proved", text, proof.places, len(document.plans))
        return text
    if proof.optimality_gap_fraction is None:
        return Sentence("nothing is proved")
    gap = percent(proof.optimality_gap_fraction)
    return Sentence("no plan of {} beats plan {} by more than {}", _lattice_text(document), rank, gap)


def _lattice_text(document: SearchDocument) -> str:
    """The space of the proof, on part of a line."""
    target = document.job["software"]["target"]
    return Sentence("the lattice") if target == ANY.name else Sentence("{}'s lattice", target)


def _print_evidence(console: Console, document: SearchDocument) -> None:
    if document.plans:
        plan = recommended_plan(document)
        sentences = [*evidence_sentences(plan.estimate, document.job), *tie_sentences(document.plans)]
        _print_all(console, (*sentences, *placement_sentences(plan)))


def _print_beside(console: Console, document: SearchDocument) -> None:
    _print_all(console, (*beside_sentences(document), *pareto_sentences(document)))


def _print_counts(console: Console, document: SearchDocument) -> None:
    console.print(_counts(document), markup=False)
    proof = document.proof
    if proof.placements is not None and proof.grain is not None:
        console.print(Sentence("compared: placements: {}; dimensions: {}", proof.placements, proof.grain), markup=False)


def _print_switches(console: Console, document: SearchDocument) -> None:
    if document.space is not None:
        console.print(space_sentence(document.space), markup=False)


def _print_plans(console: Console, document: SearchDocument) -> None:
    plans = document.plans
    if not plans:
        return
    console.print()
    console.print(_plans_table(document, wide=console.width >= WIDE))
    if len(plans) > SHOWN_PLANS:
        console.print(Sentence("and {} more; --json or --save-dir lists them all", len(plans) - SHOWN_PLANS), style="dim")
    console.print()


def _print_reasons(console: Console, document: SearchDocument) -> None:
    if document.plans:
        plan, baseline = recommended_plan(document), document.baseline
        explanation = plan.explanation
        why = None if baseline is None else baseline.why
        recipe = None
        if baseline is not None and baseline.publication is not None:
            recipe = Sentence("{}; here {}.", publication_text(baseline.publication), baseline.strategy.name)
        found = (explanation.bound_by, explanation.next_plan, explanation.one_change, why, recipe)
        _print_all(console, (*filter(None, found), *launch_sentences(plan)))


def _print_assumptions(console: Console, document: SearchDocument) -> None:
    console.print()
    print_assumptions(console, document.assumptions, ())


def _print_all(console: Console, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        console.print(sentence, markup=False)


def tie_sentences(plans: Sequence[Plan]) -> Iterator[str]:
    """The sentence on the plans that tie with the fastest, if any do."""
    if plans[0].explanation.tie is not None:
        yield plans[0].explanation.tie


def placement_sentences(plan: Plan) -> Iterator[str]:
    """Sentences on the layer placement of a plan, if there is a choice."""
    strategy = plan.strategy
    if strategy.pp * strategy.vpp > 1:
        apart = strategy.mtp_before_head
        mtp = Sentence("; prediction layers {} before that of the head", apart) if apart else ""
        yield Sentence("Layers on the virtual stages of plan {}: {}{}.", plan.rank, layers_text(strategy.layer_layout), mtp)


def beside_sentences(document: SearchDocument) -> Iterator[str]:
    """Sentences on the best plan without a target, or on the nearest plans that frameworks can launch."""
    target, physics = document.job["software"]["target"], document.physics_best
    if physics is not None:
        if physics.rules:
            step = seconds(physics.estimate.step_time_s)
            yield Sentence("Physics alone: {}: {} a step. {}", physics.strategy.name, step, physics.why)
            yield Sentence("{} refuses that: {}.", target, _rules(physics.rules))
        else:
            yield physics.why
        if physics.stopped_by:
            cut = word(physics.stopped_by)
            yield Sentence("The search of what {} refuses was cut by {}: physics may allow better plans.", target, cut)
    elif target != ANY.name and document.plans and document.counts.sampled is None and not _is_judged(document.job["search"]):
        yield Sentence("What {} refuses was not searched: the time ended first.", target)
    for nearest in document.nearest_launchable:
        if nearest.strategy is not None and nearest.estimate is not None and nearest.replaced:
            step = seconds(nearest.estimate.step_time_s)
            yield Sentence("Nearest on {}: {}: {} a step. {}", nearest.target, nearest.strategy.name, step, nearest.why)
        elif nearest.rules:
            yield nearest.why


def _is_judged(search: Mapping[str, Any]) -> bool:
    """Whether more than one order ranks or bounds plans; then no search without a target is made."""
    limits = (search.get("deadline_days"), search.get("budget_usd"))
    return search.get("objective") not in OF_LATTICE or any(limit is not None for limit in limits)


def pareto_sentences(document: SearchDocument) -> Iterator[str]:
    """Sentences on plans that no other plan beats in every objective."""
    if document.pareto:
        ranks = {plan.plan_id: str(plan.rank) for plan in document.plans}
        listed = [ranks[each.plan_id] for each in document.pareto if each.plan_id in ranks]
        others = len(document.pareto) - len(listed)
        beside = Sentence(", and {} that {} not listed (--json)", others, "is" if others == 1 else "are") if others else ""
        names = joined(", ", document.pareto[0].values)
        yield Sentence("Pareto-optimal plans for {}: {}{}.", names, joined(", ", listed), beside)


def refinement_sentences(document: SearchDocument) -> Iterator[str]:
    """Sentences on the gain of trials around the best plans, which the proof does not cover."""
    refinement = document.refinement
    if refinement is None:
        return
    counts, refine_s = refinement.counts, document.timing.refine_s
    tried = Sentence(
        "{:,} trials ({}) around the best plans: {:,} distinct, {:,} fit, {:,} ruled out by a bound, {:,} simulated{}",
        counts.trials,
        refinement.sampler,
        counts.distinct,
        counts.fits_memory,
        counts.pruned_by_bound,
        counts.simulated,
        "" if refine_s is None else Sentence(", in {:.1f} s", refine_s),
    )
    if refinement.plans:
        best = refinement.plans[0]
        where = joined(", ", best.launchable_on) or Sentence("no public release")
        yield (
            Sentence(
                "Refined, outside of the proof: {} a step, {} shorter than the proved plan: {}; can be launched on: {}.",
                seconds(best.estimate.step_time_s),
                percent(best.gain_fraction),
                best.change,
                where,
            )
        )
        yield Sentence("{}.", tried)
    else:
        yield Sentence("Nothing faster than the proved plan in {}.", tried)
    for plan in refinement.front:
        yield (
            Sentence(
                "On the front: {} a step, {:.1f} GiB: {}.",
                seconds(plan.estimate.step_time_s),
                plan.estimate.peak_memory_bytes / GIB,
                plan.change or Sentence("the proved plan"),
            )
        )


def launch_sentences(plan: Plan) -> Iterator[str]:
    """Sentences on frameworks that can launch a plan, notes on them, and the rules of other frameworks that it breaks."""
    yield Sentence(
        "Plan {} can be launched on: {}.", plan.rank, joined(", ", plan.launchable_on) or Sentence("no public release")
    )
    for launch in plan.launch.values():
        if launch is None or launch.arguments is None:
            continue
        if launch.launchable:
            yield from (Sentence("{}: {}", launch.target, note) for note in launch.notes)
        elif launch.rules:
            yield Sentence("{} does not take it: {}.", launch.target, _rules(launch.rules))


def _rules(broken: Sequence[BrokenRuleDocument]) -> str:
    return joined("; ", (Sentence("{} ({})", rule.sentence.rstrip("."), rule.rule) for rule in broken))


def _counts(document: SearchDocument) -> str:
    counts = document.counts
    fit = Sentence("memory of {:,} counted, {:,} fit", counts.estimated, counts.fits_memory)
    simulated = "" if counts.simulated is None else Sentence("; {:,} simulated", counts.simulated)
    looked: str = Sentence("{}{}; {:.1f} s", fit, simulated, document.timing.total_s)
    if counts.sampled is not None:
        seen = Sentence(
            "{:,} strategies seen in {:,} trials, {:,} of them legal", counts.enumerated, counts.sampled, counts.legal
        )
        return Sentence("{}; {}.", seen, looked)
    if counts.lattice is None or counts.lattice_legal is None or counts.forms is None:
        seen = Sentence("{:,} strategies enumerated, {:,} of them legal", counts.enumerated, counts.legal)
        return Sentence("{}; {}.", seen, looked)
    lattice = Sentence("Lattice: {:,} strategies, {:,} of them legal.", counts.lattice, counts.lattice_legal)
    if counts.forms:
        looked = Sentence("{:,} memory-saving forms beside them; {}", counts.forms, looked)
    return Sentence("{} This search looked at what its list needs: {}.", lattice, looked)


def space_sentence(space: Space) -> str:
    """A sentence on the switches that were tried, and on the savings of those that were not."""
    parts = [
        Sentence("{} {}", what, joined(", ", names))
        for what, names in (
            (Sentence("on where they act:"), [name for name in space.on if name not in USUAL]),
            (Sentence("where a plan does not fit:"), space.where_it_does_not_fit),
            (Sentence("both ways:"), space.both_ways),
            (Sentence("left out:"), [_left_out(one) for one in space.left_out if one.step_time_change_fraction is not None]),
        )
        if names
    ]
    return Sentence("Switches beside the usual {} (--allow, --forbid).", joined("; ", parts))


def _left_out(one: LeftOut) -> str:
    time, memory = one.step_time_change_fraction or 0.0, one.peak_memory_change_bytes or 0.0
    return Sentence("{} ({}; {:+.1%}, {:+.1f} GiB)", one.name, one.why, time, memory / GIB)


def _plans_table(document: SearchDocument, *, wide: bool) -> Table:
    plans, job, chosen = document.plans[:SHOWN_PLANS], document.job, recommended_plan(document)
    limit = plans[0].estimate.memory_limit_bytes / GIB
    times = column_seconds(plan.estimate.step_time_s for plan in plans)
    with_days = job["training"]["train_tokens"] is not None
    with_delivery = plans[0].delivery is not None
    with_groups = len({plan.rank_group for plan in plans}) < len(plans)
    headers = [
        ">#",
        *([">group"] if with_groups else []),
        "strategy",
        ">step",
        ">tokens/s",
        *([Sentence(">delivered a day")] if with_delivery else []),
        *([">days"] if with_days else []),
        ">MFU",
        Sentence(">GiB of {:.1f}", limit),
        ">sure",
    ]
    table = plain_table(*headers, *([Sentence("bound by")] if wide else []))
    for plan, step_time in zip(plans, times, strict=True):
        estimate = plan.estimate
        duration = train_days(estimate, job)
        cells = [str(plan.rank), *([str(plan.rank_group)] if with_groups else []), plan.strategy.name]
        cells += [step_time, count(estimate.tokens_per_s)]
        if plan.delivery is not None:
            cells.append(count(plan.delivery.delivered_tokens_per_day))
            duration = duration and plan.delivery.delivered_days
        cells += ["" if duration is None else days(duration).removesuffix(" d")] if with_days else []
        cells += ["" if estimate.mfu_fraction is None else percent(estimate.mfu_fraction)]
        cells += [f"{estimate.peak_memory_bytes / GIB:.1f}", chance(estimate.fits_probability)]
        cells += [_bound(estimate)] if wide else []
        table.add_row(*cells, style="bold" if plan is chosen else None)
    return table


def _changes_table(infeasible: InfeasibleDocument) -> Table:
    """A table of jobs near one without a plan, each with a plan that fits."""
    table = plain_table("the nearest jobs that have a plan", "a lean plan of it", ">step", ">GiB", ">sure")
    for change in infeasible.changes:
        estimate = change.estimate
        table.add_row(
            change.change,
            change.strategy.name,
            seconds(estimate.step_time_s),
            f"{estimate.peak_memory_bytes / GIB:.1f}",
            chance(estimate.fits_probability),
        )
    return table


def _bound(estimate: EstimateNumbers) -> str:
    name = estimate.bottleneck
    share = estimate.time_breakdown_s[name] / estimate.step_time_s
    return Sentence("{} {:.0%}", word(name), share)


def _print_rejections(console: Console, document: SearchDocument) -> None:
    rejections, counts = document.rejections, document.counts
    too_large = counts.estimated - counts.fits_memory
    if not rejections and not too_large:
        return
    table = plain_table("why the rest was rejected", ">strategies", "for instance")
    if too_large:
        table.add_row(
            Sentence("memory"), f"{too_large:,}", Sentence("legal, but the peak is above the limit, where it was counted")
        )
    for rejection in rejections[:SHOWN_REJECTIONS]:
        table.add_row(word(rejection.rule), f"{rejection.count:,}", rejection.example)
    for rejection in rejections[SHOWN_REJECTIONS:]:
        table.add_row(word(rejection.rule), f"{rejection.count:,}", "")
    console.print(table)
    console.print(Sentence("Counted are the strategies that this search looked at; a longer list (--top) looks at more."))


_PRINTED: Mapping[str, Callable[[Console, SearchDocument], None]] = {
    "warnings": lambda console, document: print_assumptions(console, (), document.warnings),
    "evidence": _print_evidence,
    "physics": _print_beside,
    "counts": _print_counts,
    "switches": _print_switches,
    "plans": _print_plans,
    "reasons": _print_reasons,
    "assumptions": _print_assumptions,
    "rejections": _print_rejections,
}
SECTIONS = tuple(_PRINTED)
