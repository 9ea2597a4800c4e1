"""Warnings about names in a search's limits that have no effect for the job and its target."""

from __future__ import annotations

from dataclasses import replace

from app.jobs.job import Job
from cost_models.shapes.switches import Feature
from search.space.allowed_names import absent_algorithms, notes
from search.space.search_space import tried_options


def with_notes_on_names(job: Job) -> Job:
    """The job of a search, its target decided, with a warning for each name of its limits that has no effect."""
    limits = job.limits
    without = replace(limits, allow=frozenset(), forbid=frozenset())
    asked = Feature(sum(feature for feature, values in limits.switches.items() if True in values))
    names = {"allow": limits.allow, "forbid": limits.forbid}
    said = (
        *notes(job.workload, names, asked, tried_options(job.workload, without)),
        *absent_algorithms(job.workload, limits.cp_algo or ()),
    )
    new = tuple(sentence for sentence in said if sentence not in job.warnings)
    return replace(job, warnings=(*job.warnings, *new)) if new else job
