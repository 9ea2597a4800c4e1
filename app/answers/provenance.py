"""Provenance of a price: version, calibration and hardware profile, as hashes that a later run compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from app.answers.assumptions import assumption_sentences
from app.jobs.job import SCHEMA_VERSION, Job
from calibration.files.calibrations import Calibration, calibration_for
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.hashing import fingerprint
from meshplan import __version__


def job_fields(
    job: Job,
    own: Sequence[Calibration] = (),
    plan: ParallelStrategy | None = None,
    left_out_of: Literal["strategy", "search"] | None = None,
    *,
    doubts: Sequence[str] = (),
) -> dict[str, Any]:
    """The part of an answer about its job; with a ``plan``, it has the effects of the job's defaults."""
    return head(job, assumption_sentences(job, own, plan, left_out_of), doubts)


def head(job: Job, assumptions: Sequence[str], doubts: Sequence[str] = ()) -> dict[str, Any]:
    """The first fields of an answer. ``doubts``: warnings before those of the job."""
    return {
        "schema_version": SCHEMA_VERSION,
        "job": job.document,
        "assumptions": list(assumptions),
        "warnings": [*doubts, *job.warnings],
    }


def priced_with(workload: Workload, own: Sequence[Calibration] = ()) -> dict[str, Any]:
    """The hashes that an answer carries."""
    return {
        "version": __version__,
        "calibration": calibration_for(workload, own).fingerprint,
        "hardware_profile": fingerprint(workload.cluster.profile),
    }
