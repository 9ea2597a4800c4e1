"""A stored study as a search: from its beginning, or from its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.job import Job, parse_job
from app.job_fields import EXHAUSTIVE
from cost_models.constants import Constants, prior_constants
from hardware_profiles.loader import parse_profile
from meshplan import __version__
from search.lattice import LatticeSearch
from search.lattice_state import LatticeState
from search.sampling import SamplerSearch
from search.space import SearchSpace
from search.stepwise import Stepwise
from search.stored_space import space_from_mapping
from search.trials import trials_from_mappings


@dataclass(frozen=True)
class StoredStudy:
    """What a study holds to be run: its inputs, and how far it came."""

    id: str
    job: dict[str, Any]
    hardware_profile: dict[str, Any]
    space: dict[str, Any]
    calibration: dict[str, Any]
    checkpoint: dict[str, Any] | None
    trials: tuple[dict[str, Any], ...]

    @property
    def is_of_this_version(self) -> bool:
        """Whether the checkpoint can be continued: another version may enumerate or price differently."""
        return self.checkpoint is None or self.checkpoint["version"] == __version__


@dataclass(frozen=True)
class StudySearch:
    """A study's search, with what the job says about its limits and what a trial needs to be stored."""

    job: Job
    search: Stepwise

    @property
    def time_limit_s(self) -> float | None:
        return self.job.settings.time_limit_s


def checkpoint_of(search: Stepwise) -> dict[str, Any]:
    return {"version": __version__, "search": search.checkpoint()}


def continued(study: StoredStudy) -> StudySearch:
    """The study's search where its checkpoint left it. Raises ``ValueError`` with a sentence for inputs that cannot be read."""
    profile = parse_profile(study.hardware_profile, f"study {study.id}")
    job = parse_job(study.job, profile=profile)
    space = space_from_mapping(study.space)
    constants = _constants(study.calibration)
    saved = None if study.checkpoint is None else study.checkpoint["search"]
    if job.settings.sampler == EXHAUSTIVE:
        return StudySearch(job, _lattice(job, space, constants, saved))
    return StudySearch(job, _sampler(job, space, constants, saved, study.trials))


def _lattice(job: Job, space: SearchSpace, constants: Constants, saved: Mapping[str, Any] | None) -> LatticeSearch:
    objective, top = job.settings.objective, job.settings.top
    return LatticeSearch(
        job.workload,
        space,
        constants,
        objective=objective,
        top=top,
        baseline=job.strategy,
        clock=time.perf_counter,
        state=None if saved is None else LatticeState.from_mapping(saved, objective, top),
    )


def _sampler(
    job: Job, space: SearchSpace, constants: Constants, saved: Mapping[str, Any] | None, trials: Iterable[Mapping[str, Any]]
) -> SamplerSearch:
    settings = job.settings
    assert settings.max_trials is not None  # a job with a sampler is resolved with a number of trials
    return SamplerSearch(
        job.workload,
        space,
        constants,
        sampler=settings.sampler,
        seed=settings.seed,
        max_trials=settings.max_trials,
        objective=settings.objective,
        top=settings.top,
        baseline=job.strategy,
        clock=time.perf_counter,
        trials=trials_from_mappings(job.workload, space, trials),
        checkpoint=saved,
    )


def _constants(calibration: Mapping[str, Any]) -> Constants:
    """The stored values; a constant that a later version has added takes its prior."""
    prior = prior_constants(calibration["family"])
    return prior.with_values({name: value for name, value in calibration["constants"].items() if hasattr(prior, name)})
