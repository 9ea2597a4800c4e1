"""Runs the search of a job: every strategy of its space, or those that a sampler tries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.answers.delivery import with_deliveries
from app.answers.open_fields import with_open_fields_of_plans
from app.answers.other_stacks import with_prices_of_other_stacks
from app.answers.price import fill_intervals
from app.answers.provenance import job_fields, priced_with
from app.answers.published import published_plans
from app.answers.ranking_criteria import criteria_of, criteria_sentences
from app.answers.schemas import SearchDocument
from app.answers.search_limits import limits_of
from app.calibrations.constants import constants_for, paired_error_of
from app.jobs.fields import EXHAUSTIVE
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from frameworks.target import ANY
from meshplan import __version__
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.exhaustive.target_search import TargetSearch
from search.objectives.step_time import STEP_TIME
from search.objectives.table import OBJECTIVES
from search.ranking.criteria import RankingCriteria
from search.ranking.ties import PairedError
from search.session.progress import SEARCHED, ProgressCallback
from search.session.request import SearchOptions, SearchRequest, on_physics
from search.session.runner import SteppedSearch, explained_result, run_to_end
from search.space.search_space import SearchSpace, search_space
from search.trials.trial import trials_from_mappings


def spaces_of(job: Job) -> tuple[SearchSpace, SearchSpace | None]:
    """Search space of the job, and the space without a target.

    The second is None if the job has no target, uses a sampler, or needs criteria to rank its plans.
    """
    workload = job.workload
    space = search_space(workload, job.limits)
    if workload.software.target == ANY.name or job.settings.sampler != EXHAUSTIVE or job.settings.needs_criteria:
        return space, None
    return space, search_space(on_physics(workload), job.limits)


def request_of(
    job: Job,
    space: SearchSpace,
    constants: Constants,
    *,
    physics: SearchSpace | None = None,
    paired_error: PairedError | None = None,
    criteria: RankingCriteria | None = None,
    is_stored: bool = False,
) -> SearchRequest:
    """The search that a job asks for; ``SearchError`` for an option that it gives and that the search does not read.

    ``physics`` is the space that the plans for a target are compared with. Stored jobs may hold options that an earlier version
    accepted without reading them.
    """
    settings = job.settings
    request = SearchRequest(
        job.workload,
        space,
        constants,
        objective=STEP_TIME if criteria is not None else OBJECTIVES[settings.objectives[0]],
        listed=settings.top,
        criteria=criteria,
        physics=physics,
        limits=job.limits,
        baseline=job.strategy,
        published=() if job.strategy is not None else published_plans(job),
        paired_error=paired_error or PairedError(),
        clock=time.perf_counter,
    )
    options = SearchOptions(
        sampler=None if settings.sampler == EXHAUSTIVE else settings.sampler,
        max_trials=settings.max_trials,
        seed=settings.seed,
        refine=settings.refine,
        refine_front=settings.refine_front,
        by_tensor=settings.by_tensor,
        max_simulations=settings.max_simulations,
    )
    return request.with_stored(options) if is_stored else replace(request, options=options)


def search_of(
    request: SearchRequest,
    *,
    checkpoint: Mapping[str, Any] | None = None,
    trials: Sequence[Mapping[str, Any]] = (),
    executor: Executor = SERIAL,
) -> SteppedSearch:
    """The search from its beginning, or from where the checkpoint and the trials of an earlier one left it.

    ``executor`` takes parts of an exhaustive one.
    """
    if request.options.sampler is not None:
        from search.sampled.sampler_search import SamplerSearch  # Optuna is slow to import, and most searches do without

        read = trials_from_mappings(request.workload, request.space, trials)
        return SamplerSearch(request, trials=read, checkpoint=checkpoint)
    if request.options.refine:
        from search.refinement.refined_search import RefinedSearch

        whole, lattice = _exhaustive(request, RefinedSearch.part(checkpoint), executor)
        return RefinedSearch(whole, lattice, checkpoint=checkpoint, trials=trials)
    return _exhaustive(request, checkpoint, executor)[0]


def _exhaustive(
    request: SearchRequest, checkpoint: Mapping[str, Any] | None, executor: Executor
) -> tuple[SteppedSearch, LatticeSearch]:
    """The exhaustive search, and the part of it whose plans are ranked."""
    if request.physics is not None:
        whole = TargetSearch(request, checkpoint=checkpoint, executor=executor)
        return whole, whole.launchable
    state = None if checkpoint is None else LatticeState.from_mapping(checkpoint, request.criterion, request.top)
    lattice = LatticeSearch(request, state=state, executor=executor)
    return lattice, lattice


def search_document(
    job: Job,
    on_progress: ProgressCallback | None = None,
    *,
    own: Sequence[Calibration] = (),
    executor: Executor = SERIAL,
) -> SearchDocument:
    """Result of a search, as ``meshplan search --json`` prints it."""
    space, physics = spaces_of(job)
    request = request_of(
        job,
        space,
        constants_for(job.workload, own),
        physics=physics,
        paired_error=paired_error_of(job.workload, own),
        criteria=criteria_of(job, own),
    )
    search = search_of(request, executor=executor)
    limits = limits_of(job)
    most_bytes = limits.memory_limit_bytes
    stopped_by = run_to_end(search, limits.time_limit_s, on_progress, SEARCHED, memory_limit_bytes=most_bytes, executor=executor)
    result = explained_result(search, stopped_by, on_progress, time.perf_counter)
    strategies = [plan.parallel for plan in result.plans]
    found = with_prices_of_other_stacks(job, fill_intervals(job.workload, result.to_mapping(), own), strategies)
    doubts = with_open_fields_of_plans(job, found, strategies, own)
    told = job_fields(job, own, None if result.recommended is None else result.recommended.parallel, "search")
    return SearchDocument.model_validate(
        {
            **told,
            "assumptions": [*told["assumptions"], *criteria_sentences(job)],
            "warnings": [*doubts, *told["warnings"]],
            "version": __version__,
            "priced_with": priced_with(job.workload, own),
            "no_target_fits": job.no_target_fits,
            **with_deliveries(job, found, strategies, own),
        }
    )
