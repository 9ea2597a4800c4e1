"""The kind of study that searches where the tasks of post-training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.calibrations.stored import stored_calibrations
from app.rl.fields import RlJobDocument
from app.rl.job import parse_rl_job, request_rl_job
from app.rl.schemas import RlDocument, RlStudyResult
from app.rl.service import best_of, found_so_far, placement_search
from app.storage.session import Database
from app.studies.inputs import calibration_to_mapping, constants_from
from app.studies.work import Asked, Kind, Outcome, Row, StoredStudy
from app.text.json_documents import plain
from calibration.files.calibrations import calibration_for
from documents.errors import InfeasibleError
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document
from search.post_training.search import PlacementProgress


def asked(document: Mapping[str, Any], database: Database) -> Asked:
    """The search of a request."""
    job = request_rl_job(document, database)
    workload = job.job.workload
    calibration = calibration_for(workload, stored_calibrations(database, job.job))
    return Asked(
        model_name=workload.model.name,
        hardware=workload.cluster.profile.name,
        num_devices=workload.cluster.num_devices,
        objective="step_time",
        seed=job.section.lengths.seed,
        job=dict(document),  # job without defaults: missing values are assumed, and the answer lists them
        assumptions=job.assumptions,
        hardware_profile=profile_document(workload.cluster.profile),
        calibration=calibration_to_mapping(calibration),
    )


class PlacementWork:
    """A running search of placements, with the profile and constants of the study."""

    num_records = 0

    def __init__(self, study: StoredStudy) -> None:
        job = parse_rl_job(study.job, parse_profile(study.hardware_profile, Sentence("study {}", study.id)))
        self._job = replace(job, constants=constants_from(study.calibration, job.job.workload))
        self._search = placement_search(self._job, study.left_at)

    @property
    def time_limit_s(self) -> float | None:
        return self._job.section.time_limit_s

    @property
    def progress(self) -> PlacementProgress:
        return self._search.progress

    def advance(self) -> bool:
        return self._search.advance()

    def records(self, start: int) -> list[Row]:
        return []

    def checkpoint(self) -> dict[str, Any]:
        return self._search.checkpoint()

    def outcome(self, state: str, stopped_by: str | None) -> Outcome:
        """The document of ``meshplan rl search --json``, also without a best placement; None before the first step."""
        if not self._search.has_begun:
            return Outcome(state)
        found = found_so_far(self._job, self._search, stopped_by)
        best: RlDocument | None = None
        why_none = None
        try:
            best = best_of(self._job, self._search, stopped_by)
        except InfeasibleError as error:
            why_none = str(error)
        document = RlStudyResult(**dict(found), best=best, why_none=why_none)
        return Outcome(state, plain(document), assumptions=document.assumptions, warnings=document.warnings)


RL = Kind("rl", RlJobDocument, asked, PlacementWork)
