"""A stored plan with its original inputs: workload, space and constants of its study, and its strategy."""

from __future__ import annotations

from typing import Any

from app.jobs.fields import StrategySection
from app.jobs.job import parse_job
from app.jobs.strategy import strategy_from_section
from app.storage.session import Database
from app.studies import service
from app.studies.errors import StudyConflict
from app.studies.inputs import constants_from
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload, WorkloadError
from documents.checking import check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from meshplan import __version__
from search.space.search_space import SearchSpace
from search.space.stored_space import space_from_mapping


@dataclass(frozen=True)
class StoredPlan:
    document: dict[str, Any]
    job: dict[str, Any]
    workload: Workload
    space: SearchSpace
    constants: Constants
    strategy: ParallelStrategy


def stored_plan(database: Database, study_id: str, plan_id: str) -> StoredPlan:
    """Read a stored plan; ``StudyNotFound``, ``PlanNotFound``, or ``StudyConflict`` if another version stored it."""
    with database.read() as session:
        document = service.get_plan(session, study_id, plan_id)
        study = service.get_study(session, study_id)
    try:
        profile = parse_profile(study.hardware_profile, Sentence("study {}", study_id))
        workload = parse_job(study.job, profile=profile).workload
        section = check(StrategySection, document["strategy"], "strategy")
        return StoredPlan(
            document=document,
            job=study.job,
            workload=workload,
            space=space_from_mapping(study.space),
            constants=constants_from(study.calibration, workload),
            strategy=strategy_from_section(section, workload),
        )
    except (InputError, WorkloadError) as error:
        raise StudyConflict(
            Sentence(
                "The plan was stored by version {}, and {} cannot price it again: {}.",
                study.version,
                __version__,
                str(error).rstrip("."),
            )
        ) from None
