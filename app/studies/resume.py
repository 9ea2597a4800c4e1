"""A stored study as a search: from its beginning, or from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.answers.search import search_of, spaces_of
from app.jobs.job import Job, parse_job
from calibration.files import Calibration, calibration_text, parse_calibration
from cost_models.constants import Constants, prior_constants
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
    def time_limit_s(self) -> float | None:
        return self.job.settings.time_limit_s


def checkpoint_of(search: Stepwise) -> dict[str, Any]:
    return {"version": __version__, "search": search.checkpoint()}


def continued(study: StoredStudy) -> StudySearch:
    """The study's search where its checkpoint left it; the parsers' errors for inputs that cannot be read."""
    profile = parse_profile(study.hardware_profile, f"study {study.id}")
    job = parse_job(study.job, profile=profile)
    physics = study.space.get(PHYSICS)
    search = search_of(
        job,
        space_from_mapping(study.space),
        constants_from(study.calibration),
        physics=None if physics is None else space_from_mapping(physics),
        checkpoint=None if study.checkpoint is None else study.checkpoint["search"],
        trials=study.trials,
    )
    return StudySearch(job, search, parse_calibration(json.dumps(study.calibration), f"calibration of study {study.id}"))


def calibration_to_mapping(calibration: Calibration) -> dict[str, Any]:
    """The calibration file's content, and the value of every constant: priors may change with the version, too."""
    document: dict[str, Any] = json.loads(calibration_text(calibration))
    return {**document, "fingerprint": calibration.fingerprint, "constants": asdict(calibration.constants)}


def constants_from(calibration: Mapping[str, Any]) -> Constants:
    """The stored values; a constant that a later version has added takes its prior."""
    prior = prior_constants(calibration["family"])
    return prior.with_values({name: value for name, value in calibration["constants"].items() if hasattr(prior, name)})
