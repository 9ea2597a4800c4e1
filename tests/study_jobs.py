"""Jobs whose searches take a fraction of a second, in several steps."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from app.jobs.job import Job, parse_job
from app.studies import service
from app.studies.schemas import StudyDocument
from app.studies.searches import SEARCH, search_of_job

SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
    "search": {"cp": 1, "pp": {"max": 4}, "vpp": {"max": 4}, "recompute": ["none", "block:50%", "full"], "top": 5},
}


def small_job(*, target: str = "any", **search: Any) -> Job:
    """A job of nine steps, of twice as many for a framework, or with a ``sampler``, of one step for every 32 trials."""
    return parse_job({**SMALL, "software": {"target": target}, "search": {**SMALL["search"], **search}})


def queued(session: Session, job: Job, **shared: Any) -> StudyDocument:
    """The study that searches the job."""
    return service.create_study(session, SEARCH, search_of_job(job), **shared)
