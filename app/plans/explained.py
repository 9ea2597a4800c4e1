"""The explanation of a strategy: its bounds, the effect of each change, and why another plan is faster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.price import estimate_document, fill_intervals
from app.answers.schemas import EstimateDocument
from app.answers.search_limits import limits_of
from app.answers.targets import mispacked, with_recipe_of, with_usual_target
from app.calibrations.constants import constants_for, paired_error_of
from app.calibrations.stored import stored_calibrations
from app.jobs.job import Job
from app.jobs.requests import parse_request, with_time_limit
from app.plans.schemas import Better, ExplainDocument
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from documents.errors import InfeasibleError
from documents.sentences import Sentence
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import search
from search.explain.explanation import (
    are_legal,
    best_change,
    bound_by,
    changes,
    compared,
    losses_and_savings,
    one_change,
    priced_changes,
    where_shards_lie,
)
from search.placement.layer_moves import neighbouring_moves
from search.plans.plan import DeploymentPlan
from search.ranking.ties import ties
from search.results.search_result import SearchResult
from search.sensitivity.quantities import sensitivity
from search.sensitivity.turning_points import turning_points
from search.session.progress import ProgressCallback
from search.session.request import SearchRequest
from search.space.search_space import search_space

if TYPE_CHECKING:
    from app.storage.session import Database


def explain_request(document: Mapping[str, Any], database: Database) -> ExplainDocument:
    """The answer to a request body; ``InputError`` if it has none."""
    job = parse_request(document)
    return explain_document(with_time_limit(job), stored_calibrations(database, job))


def explain_document(
    job: Job,
    own: Sequence[Calibration] = (),
    *,
    on_progress: ProgressCallback | None = None,
    executor: Executor = SERIAL,
) -> ExplainDocument:
    """Explain the job's strategy and compare it with the fastest plan of a search.

    Without a strategy, explain the plan that the search recommends. The fastest is compared with the next structure. As in
    ``search``, the plans are those of the usual target if the job names none. Nothing is searched where no plan may be offered.
    """
    searched, found = job, None
    if job.strategy is None or not mispacked(job):
        searched = with_usual_target(job, own)
        job = with_recipe_of(job, searched) if job.strategy else searched
        found = _search(searched, own, on_progress, executor)
    workload, constants = job.workload, constants_for(job.workload, own)
    space = search_space(workload, job.limits)
    strategy = job.strategy or (found.recommended.parallel if found and found.recommended else None)
    if strategy is None:
        nearest = found.nearest if found else None
        raise InfeasibleError(Sentence("There is no plan: {}.", (nearest or Sentence("nothing is legal and fits")).rstrip(".")))
    priced = estimate_document(job, strategy, own, simulated=True, replayed=False)
    rival = None if found is None else _rival(found, strategy)
    with np.errstate(all="ignore"):  # prices of an extreme job's neighbours may not be finite
        listed = sorted(
            [*one_change(workload, space, strategy, constants, simulate), *_moves(workload, strategy, constants)],
            key=lambda entry: entry["step_time_s"],
        )
        turning = [] if rival is None else _turning_points(workload, strategy, rival.parallel, constants)
        matters = sensitivity(workload, strategy, constants, simulate)
    fitting = [entry for entry in listed if entry["fits"]]
    parts = plain(priced)
    return ExplainDocument.model_validate(
        {
            **{name: parts[name] for name in EstimateDocument.model_fields if name in parts},
            "bound_by": bound_by(parts["estimate"]),
            "shards": where_shards_lie(workload, strategy),
            "best_change": best_change(listed, fit_rule(workload, constants)),
            "would_fit": None if priced.estimate.fits else _would_fit(fitting),
            "changes": listed,
            "sensitivity": matters,
            "other": None if rival is None else _better(job, own, rival, priced, strategy),
            "turning_points": turning,
            "proved_best": found is not None and found.proof.proved_best,
            "searched_target": None if found is None else searched.workload.software.target,
        }
    )


def _search(job: Job, own: Sequence[Calibration], on_progress: ProgressCallback | None, executor: Executor) -> SearchResult:
    request = SearchRequest(
        job.workload,
        search_space(job.workload, job.limits),
        constants_for(job.workload, own),
        listed=job.settings.top,
        limits=job.limits,
        paired_error=paired_error_of(job.workload, own),
        clock=time.perf_counter,
    )
    return search(request, **limits_of(job)._asdict(), on_progress=on_progress, executor=executor)


def _rival(found: SearchResult, strategy: ParallelStrategy) -> DeploymentPlan | None:
    """The best of the search, or the next structure if the strategy is the best."""
    others = [plan for plan in found.plans if plan.parallel != strategy]
    return min(others, key=lambda plan: float(plan.estimate["step_time_s"])) if others else None


def _moves(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> list[dict[str, Any]]:
    moves = neighbouring_moves(workload, strategy)
    legal = are_legal(workload, list(moves))
    allowed = {option: name for (option, name), is_legal in zip(moves.items(), legal, strict=True) if is_legal}
    return priced_changes(workload, strategy, allowed, constants, simulate)


def _turning_points(
    workload: Workload, strategy: ParallelStrategy, rival: ParallelStrategy, constants: Constants
) -> list[dict[str, Any]]:
    times = simulate(workload, StrategyBatch.of([strategy, rival]), constants).step_time_s
    first, other = (strategy, rival) if times[0] <= times[1] else (rival, strategy)
    return turning_points(workload, first, other, constants, simulate)


def _would_fit(fitting: Sequence[Mapping[str, Any]]) -> str:
    if not fitting:
        return Sentence("No change of a single dimension makes it fit; `meshplan search` finds what does.")
    fastest = fitting[0]
    return Sentence("It would fit with {}: the step {:+.1%}.", fastest["change"], fastest["delta_fraction"])


def _better(
    job: Job, own: Sequence[Calibration], plan: DeploymentPlan, priced: EstimateDocument, strategy: ParallelStrategy
) -> Better:
    mapping = fill_intervals(job.workload, {**plan.to_mapping()}, own)
    mine, its = plain(priced.estimate), mapping["estimate"]
    difference = its["step_time_s"] / mine["step_time_s"] - 1.0
    slower_first = difference < 0.0
    if slower_first:
        why = compared(Sentence("This plan"), mine, its, Sentence("the plan beside it"))
        parts = losses_and_savings(mine, its, most=1)
        reasons = Sentence("this plan {}", parts)
    else:
        why = compared(Sentence("The plan beside it"), its, mine, Sentence("this plan"))
        parts = losses_and_savings(its, mine, most=1)
        reasons = Sentence("it {}", parts)
    return Better.model_validate(
        {
            "plan_id": plan.plan_id,
            "strategy": mapping["strategy"],
            "step_time_s": its["step_time_s"],
            "difference_fraction": difference,
            "is_tie": ties(its["step_time_s"], mine["step_time_s"], paired_error_of(job.workload, own).fraction),
            "changes": changes(strategy, plan.parallel),
            "why": why,
            "reasons": reasons if parts else None,
        }
    )
