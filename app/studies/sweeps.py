"""The kind of study that finds the best plan of a job at each of many sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.calibrations.constants import FIELD, check_applies
from app.calibrations.stored import stored_constants
from app.jobs.fields import JobDocument
from app.jobs.job import Job
from app.jobs.requests import check_request
from app.storage.session import Database
from app.storage.tables import Point
from app.studies.inputs import calibration_from, calibration_to_mapping, constants_from
from app.studies.work import Asked, Kind, Outcome, Row, StoredStudy
from app.sweeps.points import Source, first_jobs, points_of, refuse_unread
from app.sweeps.service import Fitted, SweepProgress, SweepRun
from app.text.json_documents import plain
from calibration.files.calibrations import calibration_for
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document


def asked(document: Mapping[str, Any], database: Database) -> Asked:
    """The sweep of a request; ``InputError`` if no point of it is a job."""
    source = Source(document)

    def check(job: Job) -> None:
        check_request(job)
        refuse_unread(job)

    jobs = first_jobs(source, check)
    first = jobs[0]
    profiles = {job.workload.cluster.profile.name: job.workload.cluster.profile for job in jobs}
    own = {}
    with database.read() as session:
        for name in dict.fromkeys(job.calibration for job in jobs if job.calibration is not None):
            own[name] = stored_constants(session, name, FIELD)
    calibrations = {
        _fitted_name(job): calibration_for(job.workload, [own[job.calibration]] if job.calibration in own else []) for job in jobs
    }
    return Asked(
        model_name=first.workload.model.name,
        hardware=", ".join(profiles),
        num_devices=max(point.devices or first.workload.cluster.num_devices for point in points_of(source)),
        objective=", ".join(first.settings.objectives),
        job=dict(document),  # job without defaults: every point has its own defaults
        assumptions=first.assumptions,
        warnings=first.warnings,
        hardware_profile={name: profile_document(profile) for name, profile in profiles.items()},
        calibration={name: calibration_to_mapping(calibration) for name, calibration in calibrations.items()},
    )


def _fitted_name(job: Job) -> str:
    """Key of a point's calibration in a study: the job's calibration, or the family of the hardware."""
    return job.calibration or job.workload.cluster.profile.family


class SweepWork:
    """A running sweep, with the profiles and constants of the study."""

    def __init__(self, study: StoredStudy) -> None:
        profiles = {
            name: parse_profile(profile, Sentence("study {}", study.id)) for name, profile in study.hardware_profile.items()
        }
        calibrations = {name: calibration_from(stored, study.id) for name, stored in study.calibration.items()}

        def fitted_of(job: Job) -> Fitted:
            name = _fitted_name(job)
            if job.calibration is not None:
                check_applies(calibrations[name], job, name, FIELD)
            return Fitted([calibrations[name]], lambda workload: constants_from(study.calibration[name], workload))

        source = Source(study.job, profiles=profiles)
        self._run = SweepRun(source, fitted_of, checkpoint=study.left_at, records=study.records)

    @property
    def time_limit_s(self) -> float | None:
        return self._run.time_limit_s

    @property
    def progress(self) -> SweepProgress:
        return self._run.progress

    @property
    def num_records(self) -> int:
        return len(self._run.points)

    def advance(self) -> bool:
        return self._run.advance()

    def records(self, start: int) -> list[Row]:
        return self._run.records(start)

    def checkpoint(self) -> dict[str, Any]:
        return self._run.checkpoint()

    def outcome(self, state: str, stopped_by: str | None) -> Outcome:
        """The document of ``meshplan sweep --json``; None if it was stopped before its first point."""
        if not self._run.has_begun:
            return Outcome(state)
        document = self._run.document(stopped_by)
        return Outcome(state, plain(document), assumptions=document.assumptions, warnings=document.warnings)


SWEEP = Kind("sweep", JobDocument, asked, SweepWork, Point)
