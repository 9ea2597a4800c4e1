"""Results of the search of one point, as numbers of the answer; and such a search as a whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from app.answers.costs import draw_of, price_of
from app.answers.delivery import LEAST_RATE, delivered_of
from app.answers.open_fields import open_fields
from app.answers.price import fill_intervals
from app.answers.site import failing_site
from app.answers.step_interval import intervals_of
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.simulation.step_times import simulate
from documents.sentences import Sentence, word
from search.plans.plan import plan_id, strategy_to_mapping
from search.results.result_builder import ResultBuilder
from search.session.runner import run_to_end
from search.space.search_space import search_space
from search.sweep.point_search import PointSearch

DEFAULT_TOKENS = 1e12


class Reached(NamedTuple):
    """Fields of a point, and the plan from which others start."""

    values: dict[str, Any]
    start: ParallelStrategy | None


def reached(
    job: Job, own: Sequence[Calibration], constants: Constants, known: Sequence[ParallelStrategy], time_limit_s: float | None
) -> Reached:
    """The best plan of a point, searched to the end or to the limit."""
    workload = job.workload
    search = PointSearch(workload, search_space(workload, job.limits), constants, known=known, clock=time.perf_counter)
    stopped_by = run_to_end(search, time_limit_s, None)
    return Reached(best_plan(job, own, constants, search, stopped_by), search.before_climbing)


def best_plan(
    job: Job, own: Sequence[Calibration], constants: Constants, search: PointSearch, stopped_by: str | None
) -> dict[str, Any]:
    """Results of the search so far, as fields of a point."""
    workload = job.workload
    found, _ = search.best()
    if found is None:
        if stopped_by is None:
            return {"state": "infeasible", "reason": search.why_no_plan()}
        return {"state": "found", "reason": Sentence("stopped by {} before a plan was found", word(stopped_by))}
    space = search_space(workload, job.limits)
    (numbers,) = ResultBuilder(workload, space, constants, simulate).estimates([found.strategy])
    fill_intervals(workload, numbers, own, [found.strategy])
    (doubts,) = open_fields(job, [found.strategy], own)
    doubts.widen(numbers)
    return {
        "state": "proved" if search.is_closed else "found",
        "reason": None,
        "plan_id": plan_id(workload, found.strategy),
        "strategy": strategy_to_mapping(workload, found.strategy),
        **{name: numbers[name] for name in _NUMBERS},
        **_days_and_costs(job, found.strategy, numbers, own),
    }


def _days_and_costs(job: Job, strategy: ParallelStrategy, numbers: dict[str, Any], own: Sequence[Calibration]) -> dict[str, Any]:
    workload = job.workload
    section, rate, running, spares = job.delivery or DeliverySection(), 1.0, 1.0, 0
    found: dict[str, Any] = {}
    failing = failing_site(job)
    if failing is not None:
        delivered, site = delivered_of(job, failing, strategy, numbers["step_time_s"], own)
        rate, spares = delivered.rate, site.num_spares
        running = delivered.supply.rate * (delivered.effective.useful + delivered.effective.repeated)
        found["effective_time_fraction"] = rate
    if rate < LEAST_RATE:
        return found
    days = tokens_of(job) / (numbers["tokens_per_s"] * rate * DAY_S)
    draw = draw_of(workload, section, numbers, running=running, num_spares=spares)
    price = price_of(workload, section, draw, num_spares=spares)
    of_days = {
        "days": days,
        "device_days": days * workload.cluster.num_devices,
        "energy_kwh": None if draw is None else draw.kwh_per_day * days,
        "cost_usd": None if price is None else price.usd_per_day * days,
    }
    rates = {name: numbers[name] for name in ("tokens_per_s", "tokens_per_s_per_device")}
    return {**found, **of_days, "intervals": intervals_of(numbers, of_days, rates)}


_NUMBERS = (
    "step_time_s",
    "step_time_low_s",
    "step_time_high_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "mfu_fraction",
    "peak_memory_bytes",
    "headroom_bytes",
    "fit_limit_bytes",
    "fits_probability",
    "bottleneck",
)


def tokens_of(job: Job) -> float:
    """Number of tokens for days and costs."""
    return job.workload.training.train_tokens or DEFAULT_TOKENS
