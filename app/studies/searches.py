"""The kind of study that searches the best plans of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.assumptions import assumption_sentences
from app.answers.delivery import with_deliveries
from app.answers.open_fields import with_open_fields_of_plans
from app.answers.other_stacks import with_prices_of_other_stacks
from app.answers.price import fill_intervals
from app.answers.ranking_criteria import criteria_of, criteria_sentences
from app.answers.schemas import Plan
from app.answers.search import request_of, search_of, spaces_of
from app.answers.search_limits import limits_of
from app.answers.strategies import StrategyDocument
from app.answers.targets import with_usual_target
from app.calibrations.constants import calibration_sentence, constants_for, paired_error_of
from app.calibrations.stored import stored_calibrations
from app.jobs.fields import JobDocument
from app.jobs.job import Job, parse_job
from app.jobs.requests import parse_request
from app.storage.session import Database
from app.storage.tables import Trial
from app.studies.inputs import calibration_from, calibration_to_mapping, constants_from
from app.studies.schemas import StudyResult
from app.studies.work import Asked, Kind, Outcome, Row, StoredStudy
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration, calibration_for
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document
from search.plans.plan import strategy_to_mapping
from search.session.progress import Progress, while_searching
from search.session.runner import SteppedSearch
from search.space.stored_space import space_from_mapping, space_to_mapping

PHYSICS = "physics"  # key of the second search space, which ignores the target framework's rules


def asked(document: Mapping[str, Any], database: Database) -> Asked:
    """The search of the job in a request."""
    job = parse_request(document)
    own = stored_calibrations(database, job)
    return search_of_job(with_usual_target(job, own), own)


def search_of_job(job: Job, own: Sequence[Calibration] = ()) -> Asked:
    """The search of a job with its target decided; ``InputError`` if there is nothing to search."""
    workload, settings = job.workload, job.settings
    space, physics = spaces_of(job)
    # Raises for a job that cannot be searched.
    request_of(job, space, constants_for(workload, own), physics=physics, criteria=criteria_of(job, own))
    return Asked(
        model_name=workload.model.name,
        hardware=workload.cluster.profile.name,
        num_devices=workload.cluster.num_devices,
        objective=", ".join(settings.objectives),
        sampler=settings.sampler,
        seed=settings.seed,
        job=job.document,
        assumptions=[*job.assumptions, *map(calibration_sentence, own)],
        warnings=list(job.warnings),
        hardware_profile=profile_document(workload.cluster.profile),
        space=space_to_mapping(space) | ({} if physics is None else {PHYSICS: space_to_mapping(physics)}),
        calibration=calibration_to_mapping(calibration_for(workload, own)),
    )


@dataclass(frozen=True)
class SearchWork:
    """A study's search, its job, and the calibration for its intervals."""

    job: Job
    search: SteppedSearch
    calibration: Calibration

    @property
    def time_limit_s(self) -> float | None:
        return limits_of(self.job, is_study=True).time_limit_s

    @property
    def progress(self) -> Progress:
        return while_searching(self.search.progress)

    @property
    def num_records(self) -> int:
        return len(self.search.trials)

    def advance(self) -> bool:
        return self.search.advance()

    def records(self, start: int) -> list[Row]:
        """The trials, each with its strategy."""
        workload = self.job.workload
        return [
            {
                **trial.to_mapping(),
                "strategy": plain(StrategyDocument.model_validate(strategy_to_mapping(workload, trial.strategy))),
            }
            for trial in self.search.trials[start:]
        ]

    def checkpoint(self) -> dict[str, Any]:
        return self.search.checkpoint()

    def outcome(self, state: str, stopped_by: str | None) -> Outcome:
        """The ranked plans with explanations, and the other parts of the answer."""
        job, calibrations, result = self.job, [self.calibration], self.search.result(stopped_by)
        strategies = [plan.parallel for plan in result.plans]
        document = fill_intervals(job.workload, result.to_mapping(), calibrations)
        doubts = with_open_fields_of_plans(job, document, strategies, calibrations)
        with_deliveries(job, with_prices_of_other_stacks(job, document, strategies), strategies, calibrations)
        stored = StudyResult.model_validate({name: document[name] for name in StudyResult.model_fields})
        plans = [plain(Plan.model_validate(plan)) for plan in document["plans"]]
        best = None if result.recommended is None else result.recommended.parallel
        own = () if job.calibration is None else calibrations
        assumptions = [*assumption_sentences(job, own, best, "search"), *criteria_sentences(job)]
        return Outcome(state, plain(stored), plans, document["rejections"], assumptions=assumptions, doubts=doubts)


def continued(study: StoredStudy) -> SearchWork:
    """Continue the study's search from its checkpoint; raises the parsers' errors for unreadable inputs."""
    profile = parse_profile(study.hardware_profile, Sentence("study {}", study.id))
    job = parse_job(study.job, profile=profile)
    physics = study.space.get(PHYSICS)
    calibration = calibration_from(study.calibration, study.id)
    request = request_of(
        job,
        space_from_mapping(study.space),
        constants_from(study.calibration, job.workload),
        physics=None if physics is None else space_from_mapping(physics),
        paired_error=paired_error_of(job.workload, [calibration]),
        criteria=criteria_of(job, [calibration]),
        is_stored=True,
    )
    search = search_of(request, checkpoint=study.left_at, trials=study.records)
    return SearchWork(job, search, calibration)


SEARCH = Kind("search", JobDocument, asked, continued, Trial)
