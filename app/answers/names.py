"""Warnings about names in a search's limits that have no effect for the job and its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import or_

from app.jobs.job import Job
from cost_models.shapes.recompute_modules import RecomputeModule, names_of, present_modules
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence, joined
from search.space.allowed_names import absent_algorithms, modules_among, notes
from search.space.search_space import always_idle, tried_options


def with_notes_on_names(job: Job) -> Job:
    """The job of a search, its target decided, with a warning for each name of its limits that has no effect."""
    limits = job.limits
    without = replace(limits, allow=frozenset(), forbid=frozenset())
    asked = Feature(sum(feature for feature, values in limits.switches.items() if True in values))
    names = {"allow": limits.allow, "forbid": limits.forbid}
    said = (
        *notes(job.workload, names, asked, tried_options(job.workload, without)),
        *absent_algorithms(job.workload, limits.cp_algo or ()),
        *_idle_recompute(job),
    )
    new = tuple(sentence for sentence in said if sentence not in job.warnings)
    return replace(job, warnings=(*job.warnings, *new)) if new else job


def _idle_recompute(job: Job) -> Iterator[str]:
    """A sentence on the recompute modules that are asked for and change nothing."""
    limits, software = job.limits, job.workload.software
    listed = reduce(or_, (mode.modules for mode in limits.recompute or ()), RecomputeModule(0))
    of_model = always_idle(job.workload, limits) & present_modules(job.workload.model)
    for field, modules in (("recompute", listed), ("allow", modules_among(limits.allow))):
        if modules & of_model:
            names = joined(", ", names_of(modules & of_model))
            yield Sentence(
                "search.{}: {} has no effect: stack {} does not compute it again in layers of this model.",
                field,
                names,
                software.stack,
            )
