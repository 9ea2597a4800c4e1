"""Delivered rates of plans on their job's site, for answers about steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.site import nodes_of, running_plan, site_of
from app.answers.step_interval import intervals_of
from app.calibrations.constants import constants_for
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.delivery.delivered import Delivered, Site, delivered
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy

LEAST_RATE = 1e-4  # delivered share below which the number of days is meaningless


def delivered_of(
    job: Job, section: DeliverySection, strategy: ParallelStrategy, step_time_s: float, own: Sequence[Calibration] = ()
) -> tuple[Delivered, Site]:
    """Delivered rate of a plan on a site, and the site."""
    workload = job.workload
    site = site_of(section, nodes_of(workload))
    return delivered(running_plan(workload, strategy, step_time_s, constants_for(workload, own)), site), site


def delivery_summary(
    job: Job, strategy: ParallelStrategy, estimate: Mapping[str, Any], own: Sequence[Calibration] = ()
) -> dict[str, Any]:
    """A ``DeliverySummary`` as a document, for a job with a site."""
    assert job.delivery is not None
    found, _ = delivered_of(job, job.delivery, strategy, estimate["step_time_s"], own)
    workload = job.workload
    per_day = estimate["tokens_per_s"] * found.rate * DAY_S
    tokens = workload.training.train_tokens
    delivered_days = None if tokens is None or found.rate < LEAST_RATE else tokens / per_day
    return {
        "mtbf_s": found.mtbf_s if math.isfinite(found.mtbf_s) else None,
        "effective_time_fraction": found.rate,
        "delivered_tokens_per_day": per_day,
        "delivered_days": delivered_days,
        "intervals": intervals_of(estimate, {"delivered_days": delivered_days}, {"delivered_tokens_per_day": per_day}),
    }


def with_deliveries(
    job: Job, document: dict[str, Any], strategies: Sequence[ParallelStrategy], own: Sequence[Calibration] = ()
) -> dict[str, Any]:
    """The document of a search with the delivered rates of its plans, if the job has a site."""
    if job.delivery is not None:
        for plan, strategy in zip(document["plans"], strategies, strict=True):
            plan["delivery"] = delivery_summary(job, strategy, plan["estimate"], own)
    return document
