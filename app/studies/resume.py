"""A stored study as a search: from its beginning, or from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.answers.judgement import judgement_of
from app.answers.search import search_of, spaces_of
from app.calibrations.constants import paired_error_of
from app.jobs.job import Job, parse_job
from calibration.files import Calibration, calibration_text, parse_calibration, shipped_calibration
from calibration.intervals import Coverage, ErrorBand
from cost_models.constants import CONSTANTS, Constants, prior_constants
from cost_models.shapes.workload import Workload
from hardware_profiles.loader import parse_profile
from meshplan import __version__
from search.stepwise import Stepwise
from search.stored_space import space_from_mapping, space_to_mapping

PHYSICS = "physics"  # beside a target's space: that of the physics alone


def spaces_to_mapping(job: Job) -> dict[str, Any]:
    """What the search of the job tries, as a study stores it."""
    space, physics = spaces_of(job)
    return space_to_mapping(space) | ({} if physics is None else {PHYSICS: space_to_mapping(physics)})


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
    """A study's search, the job behind it, and the calibration that says how sure its estimates are."""

    job: Job
    search: Stepwise
    calibration: Calibration

    @property
    def own(self) -> tuple[Calibration, ...]:
        """The calibration, where the job names it."""
        return () if self.job.calibration is None else (self.calibration,)

    @property
    def time_limit_s(self) -> float | None:
        return self.job.settings.time_limit_s


def checkpoint_of(search: Stepwise) -> dict[str, Any]:
    return {"version": __version__, "search": search.checkpoint()}


def continued(study: StoredStudy) -> StudySearch:
    """The study's search where its checkpoint left it; the parsers' errors for inputs that cannot be read."""
    profile = parse_profile(study.hardware_profile, f"study {study.id}")
    job = parse_job(study.job, profile=profile)
    physics = study.space.get(PHYSICS)
    calibration = parse_calibration(json.dumps(_of_this_version(study.calibration)), f"calibration of study {study.id}")
    search = search_of(
        job,
        space_from_mapping(study.space),
        constants_from(study.calibration, job.workload),
        physics=None if physics is None else space_from_mapping(physics),
        paired_error=paired_error_of(job.workload, [calibration]),
        judgement=judgement_of(job, [calibration]),
        checkpoint=None if study.checkpoint is None else study.checkpoint["search"],
        trials=study.trials,
    )
    return StudySearch(job, search, calibration)


def _of_this_version(calibration: dict[str, Any]) -> dict[str, Any]:
    """Without constants that are gone since the study was stored; those that are left then count as independent."""
    known = {constant.name for constant in CONSTANTS}
    fitted = [row for row in calibration["fitted"] if row["name"] in known]
    return calibration if len(fitted) == len(calibration["fitted"]) else {**calibration, "fitted": fitted, "correlations": []}


def calibration_to_mapping(calibration: Calibration) -> dict[str, Any]:
    """The calibration file's content, and the value of every constant: priors may change with the version, too."""
    document: dict[str, Any] = json.loads(calibration_text(calibration))
    values = {constant.name: getattr(calibration.constants, constant.name) for constant in CONSTANTS}
    return {**document, "fingerprint": calibration.fingerprint, "constants": values}


def constants_from(calibration: Mapping[str, Any], workload: Workload) -> Constants:
    """The stored values; what a later version has added takes its prior, or what ships."""
    prior = prior_constants(calibration["family"])
    known = {constant.name for constant in CONSTANTS}
    constants = prior.with_values({name: value for name, value in calibration["constants"].items() if name in known})
    bands = tuple(ErrorBand(**row) for row in calibration.get("memory_bands", ()))
    coverage = tuple(Coverage(**row) for row in calibration.get("memory_coverage", ()))
    stored = replace(shipped_calibration(calibration["family"]), memory_bands=bands, memory_coverage=coverage)
    return replace(constants, peak_spread=stored.memory_evidence(workload).spread)
