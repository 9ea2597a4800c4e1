"""The default target of a search: the framework of the hardware's usual stack, unless it takes no plan of the job that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.answers.batch_divisors import with_note_on_batch
from app.answers.names import with_notes_on_names
from app.calibrations.constants import constants_for
from app.jobs.job import Job
from app.jobs.precision import RECIPE, leaves_recipe_open, with_usual_recipe
from calibration.files.calibrations import Calibration
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.sentences import Sentence
from frameworks.framework import Framework
from frameworks.registry import framework_of, newer_release, releases_of
from search.feasibility.least_memory_plan import most_frequent, takes_a_plan
from search.space.enumeration import Rejections, refusals


def with_usual_target(job: Job, own: Sequence[Calibration] = ()) -> Job:
    """The job of a search with its target decided, and an assumption with the reason; unchanged if the job names one.

    The target is physics alone only if no release takes a plan that fits and physics has one, which a warning says first. Its
    other warnings list names of its limits that have no effect for the target. ``InputError`` if the named target's framework
    would train the job's packed samples wrongly.
    """
    return with_note_on_batch(with_notes_on_names(_with_target(job, own)))


def with_recipe_of(job: Job, searched: Job) -> Job:
    """The job with the recipe that its search takes if it states none, so that both prices have the same."""
    if not leaves_recipe_open(job.workload) or leaves_recipe_open(searched.workload):
        return job
    taken = searched.assumed[RECIPE]
    return replace(job, workload=replace(job.workload, training=searched.workload.training)).with_defaults(
        {RECIPE: (taken.value, taken.why)}
    )


def mispacked(job: Job) -> tuple[str, ...]:
    """Why the framework of the named target is offered no plan of the job's packed samples; empty if it is."""
    named = framework_of(job.workload.software.target) if job.is_target_given else None
    return () if named is None else named.mispacked(job.workload)


def _with_target(job: Job, own: Sequence[Calibration]) -> Job:
    if job.is_target_given:
        if wrong := mispacked(job):
            raise InputError(
                Sentence(
                    "training.mean_squared_length_fraction (--lengths): {}; without it samples are padded.", wrong[0].rstrip(".")
                )
            )
        return job
    software, family = job.workload.software, job.workload.cluster.profile.family
    releases = [release for release in releases_of(software.stack) if family in release.target.families]
    if not releases:
        return _assuming(job, Sentence("software.target = any (no launch files are written for stack {})", software.stack))
    reasons = []
    releases = sorted(releases, key=lambda one: _shortfall(one, job.workload))
    for framework in releases:
        workload, rejections = _planned_for(job, framework, {}), Rejections()
        if wrong := framework.mispacked(workload):
            reasons.append(wrong[0].rstrip("."))
        elif takes_a_plan(workload, job.limits, constants_for(workload, own), rejections):
            return _with_framework(job, framework)
        else:
            reasons.append(_why_not(workload, framework, rejections))
    if not takes_a_plan(job.workload, job.limits, constants_for(job.workload, own), Rejections()):
        return _with_framework(job, releases[0])  # physics refuses it as well, and the search says why
    none_is_told = _shortfall(releases[0], job.workload) == 2  # then the newest says why
    why = reasons[-1 if none_is_told else 0]
    alone = Sentence("Physics alone: no framework runs these plans as they are, since {}.", why)
    job = replace(job, warnings=(alone, *job.warnings), no_target_fits=True)
    return _assuming(job, Sentence("software.target = any ({})", why))


def _planned_for(job: Job, framework: Framework, assumed: dict[str, str]) -> Workload:
    """The workload for a framework; defaults that its target decides are added to ``assumed``."""
    workload = replace(job.workload, software=replace(job.workload.software, target=framework.target.label))
    return with_usual_recipe(workload, assumed)


def _with_framework(job: Job, framework: Framework) -> Job:
    assumed: dict[str, str] = {}
    workload, label = _planned_for(job, framework, assumed), framework.target.label
    job = job.with_defaults({name: (workload.training.fp8_recipe, why) for name, why in assumed.items()})
    document = {**job.document, "software": {**job.document["software"], "target": label}}
    warnings = (*job.warnings, *framework.untold(workload), *framework.misstated(workload))
    newer = newer_release(label)
    sentence = Sentence(
        "software.target = {} (usual for stack {}; --target any asks for the physics alone{})",
        label,
        workload.software.stack,
        Sentence(", --target {} for the newer release", newer) if newer else "",
    )
    return _assuming(replace(job, workload=workload, document=document, warnings=warnings), sentence)


def _shortfall(framework: Framework, workload: Workload) -> int:
    """2 for a release that would train another model, 1 for one with another constant, else 0."""
    return 2 if framework.untold(workload) else int(bool(framework.misstated(workload)))


def _why_not(workload: Workload, framework: Framework, rejections: Rejections) -> str:
    target, reason = framework.target, most_frequent(workload, rejections)
    if reason is not None and refusals(workload):
        return Sentence("{} takes no plan of this job: {}", target.label, reason.rstrip("."))
    if untold := framework.untold(workload):
        return Sentence("{} takes no plan of this job: {}", target.label, untold[0].rstrip("."))
    if reason is None:
        return Sentence("{} takes no plan of this job that fits", target.label)
    return Sentence("{} takes no plan of this job that fits; most often: {}", target.label, reason.rstrip("."))


def _assuming(job: Job, sentence: str) -> Job:
    return replace(job, assumptions=(*job.assumptions, sentence))
