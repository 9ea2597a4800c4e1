"""The default target of a search: the framework of the hardware's usual stack, if it takes a plan of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.answers.names import with_notes_on_names
from app.calibrations.constants import constants_for
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.registry import releases_of
from frameworks.target import Target
from search.feasibility.least_memory_plan import most_frequent, takes_a_plan
from search.space.enumeration import Rejections, refusals


def with_usual_target(job: Job, own: Sequence[Calibration] = ()) -> Job:
    """The job of a search with its target decided, and an assumption with the reason; unchanged if the job names one.

    Its warnings list names of its limits that have no effect for the target.
    """
    return with_notes_on_names(_with_target(job, own))


def _with_target(job: Job, own: Sequence[Calibration]) -> Job:
    if job.is_target_given:
        return job
    software, family = job.workload.software, job.workload.cluster.profile.family
    releases = [release for release in releases_of(software.stack) if family in release.target.families]
    if not releases:
        return _assuming(job, Sentence("software.target = any (no launch files are written for stack {})", software.stack))
    reasons = []
    for framework in releases:
        label = framework.target.label
        workload = replace(job.workload, software=replace(software, target=label))
        if untold := framework.untold(workload):
            reasons.append(untold[0][0].lower() + untold[0][1:].rstrip("."))
            continue
        rejections = Rejections()
        if takes_a_plan(workload, job.limits, constants_for(workload, own), rejections):
            document = {**job.document, "software": {**job.document["software"], "target": label}}
            sentence = Sentence(
                "software.target = {} (usual for stack {}; --target any asks for the physics alone)", label, software.stack
            )
            return _assuming(replace(job, workload=workload, document=document), sentence)
        reasons.append(_why_not(workload, framework.target, rejections))
    return _assuming(job, Sentence("software.target = any ({})", reasons[0]))


def _why_not(workload: Workload, target: Target, rejections: Rejections) -> str:
    reason = most_frequent(workload, rejections)
    if reason is not None and refusals(workload):
        return Sentence("{} takes no plan of this job: {}", target.label, reason.rstrip("."))
    if reason is None:
        return Sentence("no plan that {} takes fits", target.label)
    return Sentence("{} takes no plan of this job that fits; most often: {}", target.label, reason.rstrip("."))


def _assuming(job: Job, sentence: str) -> Job:
    return replace(job, assumptions=(*job.assumptions, sentence))
