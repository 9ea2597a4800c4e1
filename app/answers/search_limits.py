"""The limits of a search: those of its job, or those that keep the answer to any job within a minute and 1 GiB."""

from __future__ import annotations

from typing import NamedTuple

from app.jobs.job import Job
from app.settings import load_settings


class RunLimits(NamedTuple):
    """Seconds of a search, and the bytes that it may take. What follows a cut takes some seconds more."""

    time_limit_s: float | None
    memory_limit_bytes: int


def limits_of(job: Job, *, is_study: bool = False) -> RunLimits:
    """The limits of the job's search; nobody waits for a study, so that it has no default time limit.

    ``InputError`` for an environment that gives no valid ones.
    """
    settings, given = load_settings(), job.settings.time_limit_s
    return RunLimits(settings.search_s if given is None and not is_study else given, settings.search_bytes)
