"""Jobs in requests: no file of the server is ever read for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from app.jobs.job import Job, parse_job
from documents.errors import InputError, unknown_name
from documents.sentences import Sentence
from hardware_profiles import catalogue
from hardware_profiles.schema import HardwareProfile

MAX_SEARCH_S = 10.0  # the caller waits for the answer; a longer search must be a study
MAX_SERVED_LAYERS = 2048  # most pipeline stages: the memory of an estimate grows with their square


def check_keys(body: Mapping[str, Any], allowed: Collection[str]) -> None:
    """``InputError`` for an unknown key of a request."""
    for name in body:
        if name not in allowed:
            raise unknown_name(name[:100], name, allowed, what="key")


def parse_request(document: Mapping[str, Any], profile: HardwareProfile | None = None) -> Job:
    """The job in a request; ``InputError`` if it is none. ``profile`` replaces the one that the job names."""
    cluster = document.get("cluster")
    hardware = cluster.get("hardware") if isinstance(cluster, Mapping) else cluster
    if profile is None and isinstance(hardware, str) and catalogue.known_name(hardware) is None:
        raise catalogue.unknown("cluster.hardware", hardware)
    if isinstance(document.get("model"), str) and not document["model"].strip():
        raise InputError(Sentence("model: empty; give a preset's name or a mapping."))
    job = parse_job(document, profile=profile)
    check_request(job)
    return job


def check_request(job: Job) -> None:
    """``InputError`` for a job that is too large for a request."""
    if job.workload.model.num_layers > MAX_SERVED_LAYERS:
        raise InputError(
            Sentence(
                "model.num_layers: {:,} is more than the {:,} that the server takes; price such a model with the command line.",
                job.workload.model.num_layers,
                MAX_SERVED_LAYERS,
            )
        )


def with_time_limit(job: Job) -> Job:
    """The job with a time limit for its search, since the caller waits."""
    given = job.settings.time_limit_s
    limit_s = MAX_SEARCH_S if given is None else min(given, MAX_SEARCH_S)
    return replace(job, settings=job.settings.model_copy(update={"time_limit_s": limit_s}))
