"""Answers to Python in the same process: what ``meshplan.search``, ``estimate`` and ``explain`` stand on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.answers.executors import opened
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument, SearchDocument
from app.answers.search import search_document
from app.answers.simulation import PlayedStep, play
from app.answers.targets import with_usual_target
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for, own_calibrations
from app.jobs.job import Job, load_job, parse_job
from app.plans.explained import explain_document
from app.plans.schemas import ExplainDocument, PlanTimeline
from app.plans.timeline import timeline_document
from documents.errors import InputError
from search.stepwise import ProgressCallback

Sections = Mapping[str, Mapping[str, Any]]


def job_of(source: Mapping[str, Any] | str, sections: Sections) -> Job:
    """The job of a mapping, of a file or of a preset, with fields of ``sections`` in place of its own."""
    if isinstance(source, str):
        return load_job(source, sections, {})
    document = dict(source)
    for name, fields in sections.items():
        own = document.get(name)
        document[name] = {**own, **fields} if isinstance(own, Mapping) and isinstance(fields, Mapping) else fields
    return parse_job(document, folder=Path())


def searched(
    source: Mapping[str, Any] | str, sections: Sections, on_progress: ProgressCallback | None = None, *, executor: str = "serial"
) -> SearchDocument:
    """The answer of ``meshplan search --json``."""
    job = job_of(source, sections)
    own = own_calibrations(job)
    with opened(executor) as workers:
        return search_document(with_usual_target(job, own), on_progress, own=own, executor=workers)


def estimated(source: Mapping[str, Any] | str, sections: Sections, *, simulated: bool) -> EstimateDocument:
    """The answer of ``meshplan estimate --json``."""
    job = job_of(source, sections)
    if job.strategy is None:
        raise InputError("strategy: missing; give it in the job, as in strategy={'tp': 8, 'pp': 4}.")
    return estimate_document(job, job.strategy, own_calibrations(job), simulated=simulated, advised=True)


def explained(source: Mapping[str, Any] | str, sections: Sections) -> ExplainDocument:
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
    """Its bars and memory, as columns."""
    return timeline_document(step)


def trace(step: PlayedStep) -> str:
    """Its trace events."""
    return trace_text(step)
