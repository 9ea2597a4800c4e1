"""Comparison of a job with a budget and a baseline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from app.answers.price import estimate_document
from app.answers.provenance import priced_with
from app.answers.schemas import EstimateDocument, EstimateNumbers
from app.answers.search_limits import limits_of
from app.answers.tables.memory import memory_text
from app.answers.targets import with_usual_target
from app.calibrations.constants import constants_for, paired_error_of
from app.checks.baseline import Baseline, is_simulated, pinned, refuse_another_model, tool_changes
from app.checks.budget import Budget
from app.checks.metrics import SLOWDOWN, measured, numbers_of
from app.checks.outcome import EXIT_CODES, MEMORY, PLAN, STRATEGY, bound_item, item, skipped, status_of
from app.checks.regression import compared, regression_items
from app.checks.schemas import CheckDocument, CheckItem, Comparison, FoundPlan, ItemStatus, SearchSummary
from app.jobs.fields import EXHAUSTIVE
from app.jobs.job import SCHEMA_VERSION, Job
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.quantities import percent
from documents.sentences import Sentence
from frameworks.legality import violations
from meshplan import __version__
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import search
from search.results.search_result import SearchResult
from search.session.progress import ProgressCallback
from search.session.request import SearchRequest
from search.space.search_space import search_space

SAME_FRACTION = 1e-9  # two computations of the same price may differ in the last digits


@dataclass(frozen=True)
class Checked:
    """A check's document, with the job and the calibrations that were priced; without a price, ``job`` is None."""

    document: CheckDocument
    job: Job | None = None
    own: tuple[Calibration, ...] = ()


def check_job(
    job: Job,
    budget: Budget,
    *,
    baseline: Baseline | None = None,
    pin: bool = False,
    own: Sequence[Calibration] = (),
    on_progress: ProgressCallback | None = None,
    executor: Executor = SERIAL,
) -> Checked:
    """Make the document of ``meshplan schema check``; ``InputError`` for a budget or a baseline that does not fit the job."""
    own = tuple(own)
    if baseline is not None:
        refuse_another_model(job, baseline)
    changes = [] if baseline is None else tool_changes(baseline, priced_with(job.workload, own))
    if pin:
        if baseline is None:
            raise InputError(
                Sentence("pin (--pin): there is no baseline to hold the tool to; give one (--baseline) or leave it out.")
            )
        job, own = pinned(job, baseline)
    if job.strategy is None:
        job = with_usual_target(job, own)
    found = _best_plan(job, own, on_progress, executor) if job.strategy is None else None
    strategy = job.strategy or (found.recommended.parallel if found and found.recommended else None)
    standing = _strategy_item(job, strategy, found)
    if standing.status != "passed" or strategy is None:
        nothing = skipped(budget, with_regression=baseline is not None, why=Sentence("there is no strategy to price"))
        return Checked(_document(job, [standing, *nothing]))
    # Compared numbers have one fidelity: the baseline's, or without a baseline the search's.
    simulated = baseline is None or is_simulated(baseline)
    priced = estimate_document(job, strategy, own, simulated=simulated, replayed=False)
    items = [standing, _memory_item(priced.estimate, priced.job)]
    if budget.needs_search and found is None and priced.estimate.fits:
        found = _best_plan(job, own, on_progress, executor)
    items += _budget_items(budget, priced, found, paired_error_of(job.workload, own).fraction)
    comparison = None
    if baseline is not None:
        metrics = [metric for metric in budget.bounds if metric != SLOWDOWN]
        comparison = compared(baseline, job, priced, tuple(budget.tolerances), metrics, own, pin=pin, tool_changes=changes)
        items += regression_items(comparison, budget.tolerances, paired_error_of(job.workload, own).fraction)
    if job.strategy is None and found is not None and found.proof.stopped_by:
        items = [_not_yet(found) for found in items]
    return Checked(_document(job, items, priced, comparison, found), job, own)


def check_without_job(sentence: str, budget: Budget, *, with_regression: bool) -> Checked:
    """The answer for a strategy that does not divide the devices, so that there is no job to price."""
    nothing = skipped(budget, with_regression=with_regression, why=Sentence("there is no strategy to price"))
    return Checked(_document(None, [item(STRATEGY, "failed", sentence), *nothing]))


def _best_plan(job: Job, own: Sequence[Calibration], on_progress: ProgressCallback | None, executor: Executor) -> SearchResult:
    """The plans by step time, whatever the job's objective, since a budget bounds the distance in step time.

    A job without a strategy is checked at the recommended one, for which as many plans are compared as in a search. As there, the
    plans are those of the usual target if the job names none; the recipe is that of the checked strategy's price.
    """
    given, job = job, with_usual_target(job, own)
    workload = replace(job.workload, training=given.workload.training)
    request = SearchRequest(
        workload,
        search_space(workload, job.limits),
        constants_for(workload, own),
        listed=1 if job.strategy else job.settings.top,
        limits=job.limits,
        baseline=job.strategy,
        paired_error=paired_error_of(workload, own),
        clock=time.perf_counter,
    )
    return search(
        request,
        **limits_of(job)._asdict(),
        on_progress=on_progress,
        executor=executor,
    )


def _strategy_item(job: Job, strategy: ParallelStrategy | None, found: SearchResult | None) -> CheckItem:
    if strategy is None:
        assert found is not None
        if found.proof.stopped_by:
            return item(STRATEGY, "undetermined", Sentence("The search was cut before it found a plan."))
        return item(
            STRATEGY,
            "failed",
            Sentence("There is no plan: {}.", (found.nearest or Sentence("nothing is legal and fits")).rstrip(".")),
        )
    broken = violations(job.workload, strategy)
    if broken:
        return item(
            STRATEGY, "failed", Sentence("The strategy cannot run: {} ({}).", broken[0].sentence.rstrip("."), broken[0].rule)
        )
    if job.strategy is None:
        return item(STRATEGY, "passed", Sentence("The job names no strategy: the plan that a search recommends is checked."))
    return item(STRATEGY, "passed", Sentence("The strategy breaks no rule of target {}.", job.workload.software.target))


def _memory_item(estimate: EstimateNumbers, job: Mapping[str, Any]) -> CheckItem:
    status: ItemStatus = "passed" if estimate.fits else "failed"
    sentence = Sentence("The fullest device needs {}.", memory_text(estimate, job))
    return item(MEMORY, status, sentence, "peak_memory_bytes", estimate.peak_memory_bytes, estimate.fit_limit_bytes)


def _budget_items(
    budget: Budget, priced: EstimateDocument, found: SearchResult | None, paired_fraction: float
) -> list[CheckItem]:
    estimate = numbers_of(priced)
    if not priced.estimate.fits:
        return skipped(budget, with_regression=False, why=Sentence("the strategy does not fit"))
    items = [
        bound_item(metric, end, limit, measured(metric, estimate, priced.job, where="budget"))
        for metric, end, limit in budget.limits()
        if metric != SLOWDOWN
    ]
    bounds = [(end, limit) for metric, end, limit in budget.limits() if metric == SLOWDOWN]
    if not bounds:
        return items
    assert found is not None
    is_cut = found.proof.stopped_by is not None
    if found.plans:
        # Both come from the search, which simulates them: closed form and simulation cannot be compared.
        given = found.baseline is not None and found.baseline.source == "given"
        own = found.baseline.estimate if found.baseline is not None and given else (found.recommended or found.plans[0]).estimate
        slowdown = own["step_time_s"] / found.plans[0].estimate["step_time_s"] - 1
        slowdown = 0.0 if abs(slowdown) < SAME_FRACTION else slowdown
        held = [bound_item(SLOWDOWN, end, limit, slowdown, may_grow=is_cut) for end, limit in bounds]
        if 0 < slowdown < paired_fraction and not is_cut:
            tie = Sentence("It is not measurably slower: the paired error is {}.", percent(paired_fraction))
            held = [item.model_copy(update={"sentence": Sentence("{} {}", item.sentence, tie)}) for item in held]
        return items + held
    if not is_cut:
        items.append(
            item(
                PLAN, "failed", Sentence("The search found no plan: {}.", (found.nearest or Sentence("nothing fits")).rstrip("."))
            )
        )
    why = Sentence("the search was cut before it found a plan") if is_cut else Sentence("the search found no plan")
    status: ItemStatus = "undetermined" if is_cut else "not_evaluated"
    sentence = Sentence("{} has no value: {}.", SLOWDOWN, why)
    return items + [item(f"budget.{SLOWDOWN}.{end}", status, sentence, SLOWDOWN, None, limit) for end, limit in bounds]


def _not_yet(found: CheckItem) -> CheckItem:
    """Whether a search was cut, so that it may have missed a better plan than the checked one."""
    if found.status != "failed":
        return found
    sentence = Sentence("{}; the search was cut, a better plan may exist.", found.sentence.rstrip("."))
    return found.model_copy(update={"status": "undetermined", "sentence": sentence})


def _document(
    job: Job | None,
    items: Sequence[CheckItem],
    priced: EstimateDocument | None = None,
    comparison: Comparison | None = None,
    found: SearchResult | None = None,
) -> CheckDocument:
    status = status_of(items)
    assumptions, warnings = ((), ()) if job is None else (job.assumptions, job.warnings)
    return CheckDocument(
        schema_version=SCHEMA_VERSION,
        version=__version__,
        status=status,
        exit_code=EXIT_CODES[status],
        checks=list(items),
        baseline=comparison,
        search=None if found is None else _search_summary(found),
        job=None if job is None else job.document,
        assumptions=list(assumptions if priced is None else priced.assumptions),
        warnings=[*warnings, *_sampler_warning(job, found)],
        priced_with=None if priced is None else priced.priced_with,
        strategy=None if priced is None else priced.strategy,
        estimate=None if priced is None else priced.estimate,
        **({} if priced is None or priced.delivery is None else {"delivery": priced.delivery}),
    )


def _sampler_warning(job: Job | None, found: SearchResult | None) -> list[str]:
    if job is None or found is None or job.settings.sampler == EXHAUSTIVE:
        return []
    return [
        Sentence("search.sampler = {} has no effect on a check: every strategy is enumerated and priced.", job.settings.sampler)
    ]


def _search_summary(found: SearchResult) -> SearchSummary:
    best = found.plans[0].to_mapping() if found.plans else None
    return SearchSummary.model_validate(
        {
            "counts": asdict(found.counts),
            "proof": found.proof,
            "total_s": found.timing.total_s,
            "best": None if best is None else {name: best[name] for name in FoundPlan.model_fields},
            "nearest": found.nearest,
        }
    )
