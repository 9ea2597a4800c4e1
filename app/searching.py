"""Runs the search of a job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from app.errors import InputError
from app.job import SCHEMA_VERSION, Job
from app.priced_with import priced_with
from app.pricing import calibration_sentence, constants_for, fill_intervals
from calibration.files import Calibration
from meshplan import __version__
from search.errors import SearchError
from search.lattice import search
from search.space import search_space
from search.stepwise import ProgressCallback


def search_document(job: Job, on_progress: ProgressCallback | None = None, *, own: Sequence[Calibration] = ()) -> dict[str, Any]:
    """The document that ``meshplan schema search`` describes."""
    try:
        result = search(
            job.workload,
            search_space(job.workload, job.limits),
            constants_for(job.workload, own),
            objective=job.settings.objective,
            top=job.settings.top,
            baseline=job.strategy,
            clock=time.perf_counter,
            time_limit_s=job.settings.time_limit_s,
            on_progress=on_progress,
        )
    except SearchError as error:
        raise InputError(f"{str(error).rstrip('.')}.") from None
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "job": job.document,
        "assumptions": [*job.assumptions, *map(calibration_sentence, own)],
        "warnings": list(job.warnings),
        "priced_with": priced_with(job.workload, own),
        **fill_intervals(job.workload, result.to_mapping(), own),
    }
