"""The functions behind ``meshplan.search`` and the other local answers of the Python package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from app.answers.executors import opened
from app.answers.files import files_of_plan as files_of_plan
from app.answers.files import report_files
from app.answers.folder import answer_folder
from app.answers.parts import PARTS
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument, SearchDocument
from app.answers.search import search_document
from app.answers.simulation import PlayedStep, can_simulate, play
from app.answers.targets import with_usual_target
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for, own_calibrations
from app.checks.baseline import parse_baseline
from app.checks.budget import Budget, parse_budget
from app.checks.check import check_job, check_without_job
from app.checks.schemas import CheckDocument
from app.goodput.schemas import GoodputDocument
from app.goodput.service import goodput_document
from app.jobs.delivery import DeliverySection
from app.jobs.fields import ClusterSection, SearchSection, SoftwareSection, StrategySection, TrainingSection
from app.jobs.job import SHORT_FORMS, Job, job_document, parse_job
from app.jobs.sweep import SweepSection
from app.language.choice import Language
from app.language.choice import checked as checked_language
from app.plans.explained import explain_document
from app.plans.schemas import ExplainDocument, PlanTimeline
from app.plans.timeline import timeline_document
from app.reports.report import Form, report
from app.sweeps.points import Source as SweepSource
from app.sweeps.schemas import SweepDocument
from app.sweeps.service import OnProgress, sweep_document
from app.sweeps.tables import columns_of
from documents.errors import InfeasibleStrategyError, InputError, nearest, show, unknown_name
from search.explain.explanation import compared as why
from search.session.progress import ProgressCallback

Source = Mapping[str, Any] | str
Sections = Mapping[str, Any]
# Fields by name, in the first section that has them; limits of a search come before the strategy that it must beat.
_SHARED = ("cluster", "training", "software", "delivery")
_OF_STRATEGY, _OF_SEARCH = ("strategy", *_SHARED, "search"), ("search", *_SHARED, "strategy")
_OF_SWEEP = ("sweep", *_OF_SEARCH)
_MODELS = {
    "cluster": ClusterSection.model_fields,
    "training": TrainingSection.model_fields,
    "software": SoftwareSection.model_fields,
    "search": SearchSection.model_fields,
    "delivery": DeliverySection.model_fields,
    "sweep": SweepSection.model_fields,
    "strategy": StrategySection.model_fields,
}
_SHORT = {"devices": ("cluster", "num_devices")}


def job_of(source: Source, given: Sections, order: Sequence[str] = _OF_STRATEGY) -> Job:
    """The job of a mapping, file or preset, with the ``given`` sections or fields in place of its own."""
    document, folder = _document_of(source, given, order)
    return parse_job(document, folder=folder)


def _document_of(source: Source, given: Sections, order: Sequence[str]) -> tuple[dict[str, Any], Path]:
    sections = _by_section(given, order)
    if isinstance(source, str):
        return job_document(source, sections)
    if not isinstance(source, Mapping):
        raise InputError(f"job: {show(source)} is not allowed; give a mapping, the path of a job file, or a preset's name.")
    document = dict(source)
    for name, fields in sections.items():
        own = document.get(name)
        document[name] = {**own, **fields} if isinstance(own, Mapping) else fields
    return document, Path()


def _by_section(given: Sections, order: Sequence[str]) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if name in _MODELS:
            value = {SHORT_FORMS[name]: value} if isinstance(value, str) and name in SHORT_FORMS else value
            if not isinstance(value, Mapping):
                raise InputError(f"{name}: {show(value)} is not allowed; give a mapping of its fields.")
            sections.setdefault(name, {}).update(value)
            continue
        section = next((each for each in order if name in _MODELS[each]), None)
        section, field = _SHORT.get(name, (None, name)) if section is None else (section, name)
        if section is None:
            known = {*_MODELS, *_SHORT, *(field for each in order for field in _MODELS[each])}
            guess = nearest(name, known)
            hint = "" if guess is None else f"did you mean {guess!r}? "
            raise InputError(f"{name}: neither a section of a job nor a field of one; {hint}`meshplan schema job` has them all.")
        sections.setdefault(section, {})[field] = value
    return sections


def searched(
    source: Source, sections: Sections, on_progress: ProgressCallback | None = None, *, executor: str = "serial"
) -> SearchDocument:
    """The answer of ``meshplan search --json``."""
    job = job_of(source, sections, _OF_SEARCH)
    own = own_calibrations(job)
    with opened(executor) as workers:
        return search_document(with_usual_target(job, own), on_progress, own=own, executor=workers)


def estimated(source: Source, sections: Sections, *, simulated: bool) -> EstimateDocument:
    """The answer of ``meshplan estimate --json``."""
    job = job_of(source, sections)
    if job.strategy is None:
        raise InputError("strategy: missing; give it in the job, as in strategy={'tp': 8, 'pp': 4}.")
    played = simulated or can_simulate(job.workload, job.strategy)
    return estimate_document(job, job.strategy, own_calibrations(job), simulated=played, replayed=simulated, explained=PARTS)


def explained(source: Source, sections: Sections) -> ExplainDocument:
    """The answer of ``meshplan explain --json``."""
    job = job_of(source, sections)
    return explain_document(job, own_calibrations(job))


def played(job: Mapping[str, Any], strategy: Mapping[str, Any]) -> PlayedStep:
    """The step of one strategy of a resolved job, task by task."""
    parsed = parse_job({**job, "strategy": strategy}, folder=Path())
    assert parsed.strategy is not None
    constants = constants_for(parsed.workload, own_calibrations(parsed))
    try:
        return play(parsed.workload, parsed.strategy, constants)
    except ValueError as error:
        raise InputError(f"The plan has no timeline: {error}.") from None


def timeline(step: PlayedStep) -> PlanTimeline:
    """Bars and memory of a step, as columns."""
    return timeline_document(step)


def trace(step: PlayedStep) -> str:
    """Trace events of a step."""
    return trace_text(step)


def checked(
    source: Source, sections: Sections, budget: Mapping[str, Any] | None, baseline: Mapping[str, Any] | None, *, pin: bool
) -> CheckDocument:
    """The answer of ``meshplan check --format json``."""
    limits = Budget() if budget is None else parse_budget(budget, has_baseline=baseline is not None)
    before = None if baseline is None else parse_baseline(baseline, "baseline")
    try:
        job = job_of(source, sections)
    except InfeasibleStrategyError as error:
        return check_without_job(str(error), limits, with_regression=before is not None).document
    return check_job(job, limits, baseline=before, pin=pin, own=own_calibrations(job)).document


def delivered(source: Source, sections: Sections) -> GoodputDocument:
    """The answer of ``meshplan goodput --json``."""
    job = job_of(source, sections)
    return goodput_document(job, own_calibrations(job))


def swept(
    source: Source, sections: Sections, on_progress: OnProgress | None = None, *, executor: str = "serial"
) -> SweepDocument:
    """The answer of ``meshplan sweep --json``."""
    document, folder = _document_of(source, sections, _OF_SWEEP)
    with opened(executor) as workers:
        return sweep_document(SweepSource(document, folder), own_calibrations, on_progress=on_progress, executor=workers)


def columns_of_sweep(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns of ``meshplan sweep --output``."""
    return columns_of(SweepDocument.model_validate(found))


def save(found: Mapping[str, Any], folder: Path, *, overwrite: bool) -> None:
    """Write the folder of ``meshplan search --save-dir``."""
    try:
        answer_folder(folder, overwrite=overwrite).write(report_files(SearchDocument.model_validate(found)))
    except InputError as error:  # the message names the flags of the command
        raise InputError(str(error).replace("--save-dir: ", "folder: ", 1).replace("--overwrite", "overwrite=True")) from None


def reported(found: Mapping[str, Any], form: Form, language: Language) -> str:
    """The page that ``meshplan report`` writes."""
    if form not in get_args(Form):
        raise unknown_name("form", form, get_args(Form))
    return report(SearchDocument.model_validate(found), form, checked_language("language", language), datetime.now(UTC).date())


def compared(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """One sentence on the numbers of two estimates."""
    return why("This plan", one, other, "the other")
