"""Which constants price a job, and the price of one strategy."""

from __future__ import annotations

from typing import Any

from app.errors import InputError
from app.job import SCHEMA_VERSION, Job
from cost_models.constants import Constants, prior_constants
from cost_models.step import estimate
from cost_models.strategy import ParallelStrategy, StrategyBatch
from cost_models.workload import Workload
from search.legality import violations
from search.plan import estimate_to_mapping, strategy_to_mapping


def constants_for(workload: Workload) -> Constants:
    """The constants of the workload's hardware family."""
    return prior_constants(workload.cluster.profile.family)


def estimate_document(job: Job, strategy: ParallelStrategy) -> dict[str, Any]:
    """The document that ``meshplan schema estimate`` describes; ``InputError`` for a strategy that cannot run."""
    broken = violations(job.workload, strategy)
    if broken:
        raise InputError(f"strategy: {broken[0].sentence.rstrip('.')} ({broken[0].rule}).")
    priced = estimate(job.workload, StrategyBatch.of([strategy]), constants_for(job.workload), breakdown=True)
    return {
        "schema_version": SCHEMA_VERSION,
        "job": job.document,
        "assumptions": list(job.assumptions),
        "warnings": list(job.warnings),
        "strategy": strategy_to_mapping(job.workload, strategy),
        "estimate": estimate_to_mapping(job.workload, priced, 0),
    }
