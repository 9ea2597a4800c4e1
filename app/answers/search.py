"""Runs the search of a job: every strategy of its space, or those that a sampler tries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.delivery import with_deliveries
from app.answers.judgement import judged_sentences, judgement_of
from app.answers.price import fill_intervals
from app.answers.provenance import about, priced_with
from app.answers.schemas import SearchDocument
from app.calibrations.constants import constants_for, paired_error_of
from app.jobs.fields import EXHAUSTIVE, refines
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from frameworks.target import ANY
from meshplan import __version__
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.exhaustive.target_search import TargetSearch, on_physics
from search.ranking.criteria import Judgement
from search.ranking.ties import PairedError
from search.session.progress import SEARCHED, ProgressCallback
from search.session.runner import Stepwise, answer_of, run_to_end
from search.space.search_space import SearchSpace, search_space
from search.trials.trial import trials_from_mappings


def spaces_of(job: Job) -> tuple[SearchSpace, SearchSpace | None]:
    """What a search tries, and what physics alone adds where the job has a target, no sampler, and plans are not judged."""
    workload = job.workload
    space = search_space(workload, job.limits)
    if workload.software.target == ANY.name or job.settings.sampler != EXHAUSTIVE or job.settings.judges_plans:
        return space, None
    return space, search_space(on_physics(workload), job.limits)


def search_of(
    job: Job,
    space: SearchSpace,
    constants: Constants,
    *,
    physics: SearchSpace | None = None,
    paired_error: PairedError | None = None,
    judgement: Judgement | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    trials: Sequence[Mapping[str, Any]] = (),
    executor: Executor = SERIAL,
) -> Stepwise:
    """The search from its beginning, or from where the checkpoint and the trials of an earlier one left it.

    ``physics`` is the space that the plans for a target are held against, ``paired_error`` what decides a tie, ``judgement`` what
    else ranks and bounds plans. ``executor`` takes parts of an exhaustive one.
    """
    if refines(job.settings):
        return _refined(job, space, constants, physics, paired_error, checkpoint, trials, executor)
    return _search_of(job, space, constants, physics, paired_error, judgement, checkpoint, trials, executor)


def _refined(
    job: Job,
    space: SearchSpace,
    constants: Constants,
    physics: SearchSpace | None,
    paired_error: PairedError | None,
    checkpoint: Mapping[str, Any] | None,
    trials: Sequence[Mapping[str, Any]],
    executor: Executor,
) -> Stepwise:
    """The exhaustive search with trials around its best plans."""
    from search.refinement.refined_search import RefinedSearch  # Optuna is slow to import, and most searches do without
    from search.refinement.refinement_trials import Settings

    whole = _search_of(job, space, constants, physics, paired_error, None, RefinedSearch.part(checkpoint), (), executor)
    lattice = whole.launchable if isinstance(whole, TargetSearch) else whole
    assert isinstance(lattice, LatticeSearch)
    settings = Settings(job.settings.refine, job.settings.seed, job.settings.refine_front)
    return RefinedSearch(
        whole, lattice, space, job.limits, settings, clock=time.perf_counter, checkpoint=checkpoint, trials=trials
    )


def _search_of(
    job: Job,
    space: SearchSpace,
    constants: Constants,
    physics: SearchSpace | None,
    paired_error: PairedError | None,
    judgement: Judgement | None,
    checkpoint: Mapping[str, Any] | None,
    trials: Sequence[Mapping[str, Any]],
    executor: Executor,
) -> Stepwise:
    settings = job.settings
    objective, top = settings.objectives[0], settings.top
    if judgement is not None:
        objective, top = judgement.of_lattice, judgement.considered
    shared: dict[str, Any] = {
        "objective": objective,
        "top": top,
        "baseline": job.strategy,
        "paired_error": paired_error,
        "clock": time.perf_counter,
    }
    if settings.sampler == EXHAUSTIVE:
        shared |= {"limits": job.limits, "executor": executor}
    if settings.sampler == EXHAUSTIVE and physics is not None:
        return TargetSearch(
            job.workload,
            space,
            physics,
            constants,
            checkpoint=checkpoint,
            max_simulations=settings.max_simulations,
            judgement=judgement,
            **shared,
        )
    if settings.sampler == EXHAUSTIVE:
        state = None if checkpoint is None else LatticeState.from_mapping(checkpoint, objective, top)
        shared |= {"max_simulations": settings.max_simulations, "by_tensor": settings.by_tensor, "judgement": judgement}
        return LatticeSearch(job.workload, space, constants, state=state, **shared)
    from search.sampled.sampler_search import SamplerSearch

    assert settings.max_trials is not None  # a job with a sampler is resolved to a number of trials
    return SamplerSearch(
        job.workload,
        space,
        constants,
        sampler=settings.sampler,
        seed=settings.seed,
        max_trials=settings.max_trials,
        trials=trials_from_mappings(job.workload, space, trials),
        checkpoint=checkpoint,
        **shared,
    )


def search_document(
    job: Job,
    on_progress: ProgressCallback | None = None,
    *,
    own: Sequence[Calibration] = (),
    executor: Executor = SERIAL,
) -> SearchDocument:
    """The document that ``meshplan schema search`` describes."""
    space, physics = spaces_of(job)
    search = search_of(
        job,
        space,
        constants_for(job.workload, own),
        physics=physics,
        paired_error=paired_error_of(job.workload, own),
        judgement=judgement_of(job, own),
        executor=executor,
    )
    result = answer_of(
        search, run_to_end(search, job.settings.time_limit_s, on_progress, SEARCHED), on_progress, time.perf_counter
    )
    told = about(job, own, result.plans[0].parallel if result.plans else None, "search")
    return SearchDocument.model_validate(
        {
            **told,
            "assumptions": [*told["assumptions"], *judged_sentences(job)],
            "version": __version__,
            "priced_with": priced_with(job.workload, own),
            **with_deliveries(
                job, fill_intervals(job.workload, result.to_mapping(), own), [plan.parallel for plan in result.plans], own
            ),
        }
    )
