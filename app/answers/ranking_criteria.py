"""The objectives and limits by which a job's plans are ranked, from its site and its prices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.answers.costs import basis_sentences, busy_fraction, draw_of, price_of
from app.answers.delivery import LEAST_RATE, delivered_of
from app.answers.site import failing_site, nodes_of, spares_of
from app.calibrations.constants import constants_for
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError
from documents.sentences import Sentence
from search.objectives.cost import usd
from search.objectives.objective import Need, ObjectiveContext, Operation
from search.objectives.table import OBJECTIVES
from search.ranking.criteria import PlanLimit, RankingCriteria


def criteria_of(job: Job, own: Sequence[Calibration] = ()) -> RankingCriteria | None:
    """Ranking criteria; None if only step time or memory ranks. ``InputError`` for an objective or a limit without a value."""
    settings = job.settings
    if not settings.needs_criteria:
        return None
    context, objectives = objective_context(job, own), tuple(OBJECTIVES[name] for name in settings.objectives)
    for need in sorted({need for objective in objectives for need in objective.needs}, key=lambda need: need.value):
        _check(need, context)
    return RankingCriteria(objectives, context, tuple(_limits(job, context)), settings.top)


def criteria_sentences(job: Job) -> list[str]:
    """Sentences on the sources of power, price and failures, if an objective or a limit needs them."""
    needed = any(OBJECTIVES[name].needs for name in job.settings.objectives)
    return basis_sentences([job]) if needed or job.settings.budget_usd is not None else []


def objective_context(job: Job, own: Sequence[Calibration] = ()) -> ObjectiveContext:
    """Site, prices and constants of a job, for objectives."""
    workload, section, failing = job.workload, job.delivery or DeliverySection(), failing_site(job)
    num_spares = 0 if failing is None else spares_of(failing, nodes_of(workload))

    def operation(strategy: ParallelStrategy, numbers: Mapping[str, Any]) -> Operation:
        if failing is None:
            return Operation(1.0, 1.0, 0)
        found, site = delivered_of(job, failing, strategy, numbers["step_time_s"], own)
        running = found.supply.rate * (found.effective.useful + found.effective.repeated)
        return Operation(max(found.rate, LEAST_RATE), running, site.num_spares)

    def kwh_per_day(numbers: Mapping[str, Any], operation: Operation) -> float:
        draw = draw_of(workload, section, numbers, running=operation.running_fraction, num_spares=operation.num_spares)
        return math.inf if draw is None else draw.kwh_per_day

    def usd_per_day(numbers: Mapping[str, Any], operation: Operation) -> float:
        draw = draw_of(workload, section, numbers, running=operation.running_fraction, num_spares=operation.num_spares)
        price = price_of(workload, section, draw, num_spares=operation.num_spares)
        return math.inf if price is None else price.usd_per_day

    any_step = {"step_time_s": 1.0, "time_breakdown_s": {}}
    return ObjectiveContext(
        workload=workload,
        constants=constants_for(workload, own),
        num_spares=num_spares,
        operation=operation,
        busy_fraction=busy_fraction,
        kwh_per_day=None if draw_of(workload, section, any_step) is None else kwh_per_day,
        usd_per_day=None if price_of(workload, section, None) is None else usd_per_day,
    )


def _check(need: Need, context: ObjectiveContext) -> None:
    """Raise ``InputError`` if the job lacks a value that an objective needs."""
    if not context.lacks(need):
        return
    if need is Need.POWER:
        raise InputError(
            Sentence("search.objective: energy: nobody says what a device of the profile draws; give delivery.power_w.")
        )
    raise InputError(
        Sentence(
            "search.objective: cost: {} has no price; give delivery.price_per_device_hour_usd (--price-per-device-hour).",
            context.workload.cluster.profile.name,
        )
    )


def _limits(job: Job, context: ObjectiveContext) -> Iterator[PlanLimit]:
    settings, workload = job.settings, job.workload
    given = {"deadline_days": settings.deadline_days, "budget_usd": settings.budget_usd}
    tokens = workload.training.train_tokens
    for name, most in given.items():
        if most is not None and tokens is None:
            raise InputError(Sentence("search.{}: of how many tokens? Give training.train_tokens.", name))
    if settings.budget_usd is not None:
        _check(Need.PRICE, context)
    if settings.deadline_days is not None and tokens is not None:
        most_days, all_tokens = settings.deadline_days, tokens
        yield PlanLimit(
            lambda strategies, estimates: [
                context.days(numbers["step_time_s"] / context.operation(strategy, numbers).useful_fraction, all_tokens)
                for strategy, numbers in zip(strategies, estimates, strict=True)
            ],
            most_days,
            lambda least: Sentence(
                "No plan is done within {:g} days: the fastest takes {:,.1f}, and trains "
                "{} in that time. At its speed a device it would take "
                "{:,} devices.",
                most_days,
                least,
                _part(all_tokens, most_days / least),
                math.ceil(workload.cluster.num_devices * least / most_days),
            ),
        )
    if settings.budget_usd is not None and tokens is not None:
        most_usd, paid_tokens = settings.budget_usd, tokens
        yield PlanLimit(
            lambda strategies, estimates: usd(context, strategies, estimates, paid_tokens),
            most_usd,
            lambda least: Sentence(
                "No plan costs {:,.0f} USD or less: the cheapest costs {:,.0f}, and trains {} for that.",
                most_usd,
                least,
                _part(paid_tokens, most_usd / least),
            ),
        )


def _part(tokens: float, fraction: float) -> str:
    return Sentence("{:.3g} of the {:.3g} tokens", tokens * fraction, tokens)
