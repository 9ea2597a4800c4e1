"""The target of a search that names none: the framework of the hardware's usual stack, where it takes a plan of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.calibrations.constants import constants_for
from app.jobs.job import Job
from calibration.files import Calibration
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from frameworks.registry import parse_target, releases_of
from frameworks.target import Target, TargetError
from search.enumeration import Rejections, refusals
from search.leanest import most_frequent, takes_a_lean_plan


def with_usual_target(job: Job, own: Sequence[Calibration] = ()) -> Job:
    """The job of a search with its target decided, and an assumption that says which and why; as it is where it names one."""
    if job.is_target_given:
        return job
    software, family = job.workload.software, job.workload.cluster.profile.family
    target = _framework_of(software.stack)
    if target is None or family not in target.families:
        return _assuming(job, f"software.target = any (no launch files are written for stack {software.stack})")
    reasons = []
    for framework in releases_of(target.name):
        label = framework.target.label
        workload = replace(job.workload, software=replace(software, target=label))
        if untold := framework.untold(workload):
            reasons.append(untold[0][0].lower() + untold[0][1:].rstrip("."))
            continue
        rejections = Rejections()
        if takes_a_lean_plan(workload, job.limits, constants_for(workload, own), estimate, rejections):
            document = {**job.document, "software": {**job.document["software"], "target": label}}
            sentence = f"software.target = {label} (usual for stack {software.stack}; --target any asks for the physics alone)"
            return _assuming(replace(job, workload=workload, document=document), sentence)
        reasons.append(_why_not(workload, framework.target, rejections))
    return _assuming(job, f"software.target = any ({reasons[0]})")


def _framework_of(stack: str) -> Target | None:
    try:
        return parse_target(stack)
    except TargetError:
        return None


def _why_not(workload: Workload, target: Target, rejections: Rejections) -> str:
    reason = most_frequent(workload, rejections)
    if reason is not None and refusals(workload):
        return f"{target.label} takes no plan of this job: {reason.rstrip('.')}"
    if reason is None:
        return f"no plan that {target.label} takes fits"
    return f"{target.label} takes no plan of this job that fits; most often: {reason.rstrip('.')}"


def _assuming(job: Job, sentence: str) -> Job:
    return replace(job, assumptions=(*job.assumptions, sentence))
