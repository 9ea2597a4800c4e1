"""The delivered rate of a job's plan on a site, as a document."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.answers.costs import Draw, Price, draw_of, price_of
from app.answers.delivery import LEAST_RATE
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument
from app.answers.search_limits import limits_of
from app.answers.simulation import can_simulate
from app.answers.site import assumed_sentences, changed_sites, nodes_of, resolved, running_plan, site_of
from app.answers.step_interval import intervals_of, step_factor_at
from app.answers.targets import with_usual_target
from app.calibrations.constants import constants_for
from app.calibrations.stored import stored_calibrations
from app.goodput.scaling import on_devices
from app.goodput.schemas import (
    CheckpointDocument,
    CostDocument,
    DeliveringPlan,
    DeliveryChange,
    EnergyDocument,
    GoodputDocument,
    LossSpikesDocument,
    MonthDocument,
    OnDevices,
    Quantiles,
    Stage,
    StretchDocument,
    SureBy,
)
from app.jobs.delivery import DeliverySection
from app.jobs.job import Job
from app.jobs.requests import parse_request
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from cost_models.delivery.checkpoints import daly_interval_s, young_interval_s
from cost_models.delivery.delivered import Delivered, RunningPlan, Site, delivered
from cost_models.delivery.failures import DAY_S, FailureRate
from cost_models.delivery.monte_carlo import histories, one_history
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InfeasibleError, InputError
from documents.sentences import Sentence
from search.executors.executor import SERIAL, Executor
from search.exhaustive.lattice_search import search
from search.session.progress import ProgressCallback
from search.session.request import SearchRequest
from search.space.search_space import search_space

if TYPE_CHECKING:
    from app.storage.session import Database


Floats = NDArray[np.float64]
SHARES = (np.arange(200) + 0.5) / 200  # of the days by failures, and of the step
SURE = (0.5, 0.8, 0.9, 0.95)  # probabilities of which days are told
MONTH_S = 30.0 * DAY_S
CONSIDERED_PLANS = 50  # plans of a search that are ranked by delivered rate
SHOWN_PLANS = 10
TOLD_STRETCHES = 1000
MAX_EVENTS = 5000  # events of one simulated history: seconds of work


def goodput_request(document: Mapping[str, Any], database: Database) -> GoodputDocument:
    """The answer to a request body; ``InputError`` if it has none."""
    job = parse_request(document)
    if job.strategy is None:
        raise InputError(Sentence("strategy: missing; give the strategy of a plan, for instance of a study's."))
    return goodput_document(job, stored_calibrations(database, job))


def goodput_document(
    job: Job,
    own: Sequence[Calibration] = (),
    *,
    on_progress: ProgressCallback | None = None,
    log: FailureRate | None = None,
    executor: Executor = SERIAL,
) -> GoodputDocument:
    """The delivery of the job's strategy, or of the plan of a search that delivers most."""
    section = job.delivery or DeliverySection()
    job = replace(job, delivery=None)  # the whole answer is about it
    workload, num_nodes = job.workload, nodes_of(job.workload)
    site = site_of(section, num_nodes)
    ranked = None
    strategy = job.strategy
    if strategy is None:
        job = with_usual_target(job, own)
        workload = job.workload
        strategy, ranked = _best_plan(job, site, own, on_progress, executor)
    priced = estimate_document(job, strategy, own, simulated=can_simulate(workload, strategy), replayed=False)
    plan = running_plan(workload, strategy, priced.estimate.step_time_s, constants_for(workload, own))
    found = delivered(plan, site)
    tokens_per_s = priced.estimate.tokens_per_s
    per_day = tokens_per_s * DAY_S
    numbers = {"step_time_s": priced.estimate.step_time_s, "time_breakdown_s": priced.estimate.time_breakdown_s}
    running = found.supply.rate * (found.effective.useful + found.effective.repeated)
    draw = draw_of(workload, section, numbers, running=running, num_spares=site.num_spares)
    energy = _energy(job, draw, per_day * found.rate, section)
    cost = _cost(job, price_of(workload, section, draw, num_spares=site.num_spares), per_day * found.rate)
    losses = _losses(found)
    warnings = list(priced.warnings)
    if not priced.estimate.fits:
        warnings.append(Sentence("The plan does not fit: nothing below is delivered until it does."))
    if found.rate < LEAST_RATE:
        warnings.append(Sentence("The job never gets from one checkpoint to the next: nothing is delivered."))
    months, days, whole, sure_by = _quantiles(job, section, found, priced)
    scaled = on_devices(workload, strategy, section, None if cost is None else cost.device_hour_usd, own)
    sentences = [] if log is None else [_log_sentence(log)]
    sentences += assumed_sentences(section, num_nodes, with_power=energy is not None, with_price=cost is not None)
    return GoodputDocument.model_validate(
        {
            **{name: part for name, part in plain(priced).items() if name in GoodputDocument.model_fields},
            "assumptions": [*priced.assumptions, *sentences],
            "warnings": warnings,
            "site": resolved(section, num_nodes).model_dump(),
            "mtbf_s": found.mtbf_s if math.isfinite(found.mtbf_s) else None,
            "effective_time_fraction": found.rate,
            "delivered_tokens_per_day": per_day * found.rate,
            "delivered_tokens_per_day_by_month": months,
            "days": days,
            "days_with_step": whole,
            "sure_by": sure_by,
            "loss_spikes": _loss_spikes(job, section, found),
            "losses": losses,
            "checkpoint": _checkpoint(found),
            "replicas": plan.num_replicas,
            "nodes_in_repair": found.supply.mean_in_repair,
            "changes": _changes(plan, site, found, per_day),
            "waterfall": _waterfall(priced, losses, scaled),
            "month": _month(found, section.seed),
            "on_devices": scaled,
            "energy": energy,
            "cost": cost,
            "intervals": intervals_of(
                plain(priced.estimate),
                {
                    **_amounts("energy", energy, ("kwh_per_billion_tokens",)),
                    **_amounts("cost", cost, ("usd_per_trillion_tokens",)),
                },
                {"delivered_tokens_per_day": per_day * found.rate},
            )
            | _whole_intervals(whole, energy, cost),
            **({} if ranked is None else {"plans": ranked}),
        }
    )


def _amounts(part: str, document: EnergyDocument | CostDocument | None, names: Sequence[str]) -> dict[str, float | None]:
    return {} if document is None else {f"{part}.{name}": getattr(document, name) for name in names}


def _whole_intervals(
    whole: Quantiles | None, energy: EnergyDocument | None, cost: CostDocument | None
) -> dict[str, dict[str, float]]:
    """80 % intervals of amounts for all tokens, which grow with the days."""
    if whole is None:
        return {}
    amounts = {
        "days": whole.mean,
        **_amounts("energy", energy, ("kwh", "co2_kg")),
        **_amounts("cost", cost, ("usd",)),
    }
    ends = {"low": whole.p10 / whole.mean, "high": whole.p90 / whole.mean}
    return {name: {end: value * share for end, share in ends.items()} for name, value in amounts.items() if value is not None}


def _loss_spikes(job: Job, section: DeliverySection, found: Delivered) -> LossSpikesDocument | None:
    spikes, training = found.campaign.spikes, job.workload.training
    if not spikes.rate_per_s:
        return None
    number = None if training.train_tokens is None else section.loss_spikes_per_trillion_tokens * training.train_tokens / 1e12
    return LossSpikesDocument(
        number=number,
        skipped_tokens=None if number is None else number * section.skipped_batches * training.step_tokens,
        rollback_s=spikes.rollback_s,
        recovery_s=spikes.recovery_s,
    )


def _log_sentence(log: FailureRate) -> str:
    return Sentence(
        "delivery.failures_per_node_day = {:.3g}, {} interruptions in {:,.0f} "
        "node-days (the log); {:.3g} to {:.3g} at a confidence of {:.0%}",
        log.per_node_day,
        log.num_failures,
        log.node_days,
        log.low_per_node_day,
        log.high_per_node_day,
        log.confidence,
    )


def _best_plan(
    job: Job, site: Site, own: Sequence[Calibration], on_progress: ProgressCallback | None, executor: Executor
) -> tuple[ParallelStrategy, list[DeliveringPlan]]:
    workload, constants = job.workload, constants_for(job.workload, own)
    space = search_space(workload, job.limits)
    request = SearchRequest(workload, space, constants, top=CONSIDERED_PLANS, limits=job.limits, clock=time.perf_counter)
    result = search(request, **limits_of(job)._asdict(), on_progress=on_progress, executor=executor)
    if not result.plans:
        raise InfeasibleError(
            Sentence("There is no plan: {}.", (result.nearest or Sentence("nothing is legal and fits")).rstrip("."))
        )
    rates = []
    for plan in result.plans:
        step_s = float(plan.estimate["step_time_s"])
        rate = delivered(running_plan(workload, plan.parallel, step_s, constants), site).rate
        rates.append((plan, step_s, rate, rate * float(plan.estimate["tokens_per_s"])))
    rates.sort(key=lambda row: -row[3])
    ranked = [
        DeliveringPlan.model_validate(
            {
                "plan_id": plan.plan_id,
                "strategy": plan.strategy,
                "step_time_s": step_s,
                "effective_time_fraction": rate,
                "delivered_tokens_per_day": tokens_per_s * DAY_S,
            }
        )
        for plan, step_s, rate, tokens_per_s in rates[:SHOWN_PLANS]
    ]
    return rates[0][0].parallel, ranked


def _losses(found: Delivered) -> dict[str, float]:
    running = found.supply.rate
    share = found.effective
    return {
        "useful": found.rate,
        "waiting_for_nodes": found.supply.waiting,
        "missing_replicas": found.supply.missing,
        "checkpoints": running * share.checkpoints,
        "repeated_work": running * share.repeated,
        **{f"recovery_{name}": running * part for name, part in share.recovery.items()},
        "slow_nodes": running * share.useful * (1.0 - found.slow_rate),
    }


def _checkpoint(found: Delivered) -> CheckpointDocument:
    cost, lossy_s = found.checkpoint, found.lossy_mtbf_s
    is_finite = math.isfinite(lossy_s)
    return CheckpointDocument(
        total_bytes=cost.total_bytes,
        device_bytes=cost.device_bytes,
        blocking_s=cost.blocking_s,
        drain_s=cost.drain_s,
        load_s=cost.load_s,
        interval_s=found.interval_s,
        young_interval_s=young_interval_s(cost.blocking_s, lossy_s) if is_finite else None,
        daly_interval_s=daly_interval_s(cost.blocking_s, lossy_s) if is_finite else None,
    )


def _quantiles(
    job: Job, section: DeliverySection, found: Delivered, priced: EstimateDocument
) -> tuple[Quantiles, Quantiles | None, Quantiles | None, list[SureBy] | None]:
    """Quantiles of months, and of the days to the job's tokens: by failures alone, with the error of the step, and sure by."""
    tokens_per_s = priced.estimate.tokens_per_s
    per_day = tokens_per_s * DAY_S
    if found.rate < LEAST_RATE:
        return Quantiles(mean=0.0, p10=0.0, p50=0.0, p90=0.0), None, None, None
    part = _played_part(found, MONTH_S)
    played = histories(found.campaign, section.histories, section.seed, horizon_s=MONTH_S * part)
    months = _summary(per_day * found.rate, _spread(played.useful_s / (MONTH_S * part) * per_day, part))
    tokens = job.workload.training.train_tokens
    if tokens is None:
        return months, None, None, None
    target_s = tokens / tokens_per_s
    mean, part = target_s / found.rate / DAY_S, _played_part(found, target_s / found.rate)
    finished = histories(found.campaign, section.histories, section.seed + 1, target_s=target_s * part)
    by_failures = _spread(finished.elapsed_s / part / DAY_S, part)
    # Failures come by the hour, so a longer step makes the whole longer by the same factor: products of both, at equal shares.
    factors = [step_factor_at(vars(priced.estimate), share) or 1.0 for share in SHARES]
    whole = np.outer(np.quantile(by_failures, SHARES), factors).ravel()
    sure_by = [SureBy(probability=each, days=float(np.quantile(whole, each))) for each in SURE]
    return months, _summary(mean, by_failures), _summary(mean, whole), sure_by


def _month(found: Delivered, seed: int) -> MonthDocument:
    """The first simulated month, up to a limit of stretches."""
    span_s = MONTH_S * _played_part(found, MONTH_S)
    told = one_history(found.campaign, seed, span_s)[:TOLD_STRETCHES]
    return MonthDocument(span_s=told[-1].end_s, stretches=[StretchDocument.model_validate(asdict(one)) for one in told])


def _played_part(found: Delivered, wall_s: float) -> float:
    """Fraction of the period to simulate; below 1 if it has too many events."""
    return 1.0 if math.isinf(found.mtbf_s) else min(1.0, MAX_EVENTS * found.mtbf_s / wall_s)


def _spread(values: Floats, part: float) -> Floats:
    """Values of the whole period from those of a ``part``: the spread of a sum of independent parts grows with the root."""
    middle = float(np.median(values))
    spread: Floats = middle + math.sqrt(part) * (values - middle)
    return spread


def _summary(mean: float, values: Floats) -> Quantiles:
    low, middle, high = (float(value) for value in np.quantile(values, (0.1, 0.5, 0.9)))
    return Quantiles(mean=mean, p10=low, p50=middle, p90=high)


def _changes(plan: RunningPlan, site: Site, found: Delivered, per_day: float) -> list[DeliveryChange]:
    rates = {
        change: delivered(plan, changed).rate
        for change, changed in changed_sites(site, has_replicas=plan.num_replicas > 1).items()
    }
    # The largest possible gain: no failures.
    rates[Sentence("no failures at all")] = delivered(
        plan,
        replace(
            site,
            failures_per_node_day=0.0,
            supernode_failures_per_day=0.0,
            cluster_failures_per_day=0.0,
            slowdowns_per_node_day=0.0,
            loss_spikes_per_token=0.0,
        ),
    ).rate
    rows = [
        DeliveryChange(
            change=change,
            effective_time_fraction=rate,
            delivered_tokens_per_day=per_day * rate,
            gain_fraction=rate / found.rate - 1.0 if found.rate else 0.0,
        )
        for change, rate in rates.items()
    ]
    return sorted(rows, key=lambda row: -row.gain_fraction)


def _waterfall(priced: EstimateDocument, losses: Mapping[str, float], scaled: Sequence[OnDevices]) -> list[Stage]:
    per_day = priced.estimate.tokens_per_s * DAY_S
    stages = [] if priced.estimate.mfu_fraction is None else [("peak", per_day / priced.estimate.mfu_fraction)]
    fewest, here = (scaled[0], priced.job["cluster"]["num_devices"]) if scaled else (None, 0)
    if fewest is not None and fewest.num_devices < here:
        linear = fewest.step_time_s * fewest.num_devices / (priced.estimate.step_time_s * here)
        stages.append(("fewest_devices_scaled_up", per_day / linear))
    stages.append(("step", per_day))
    left = 1.0
    for name, loss in losses.items():
        if name != "useful" and loss > 0.0:
            left -= loss
            stages.append((name, per_day * max(left, 0.0)))
    befores = [stages[0][1], *(value for _, value in stages[:-1])]
    return [
        Stage(stage=name, tokens_per_day=value, of_the_one_before=value / before if before else 0.0)
        for (name, value), before in zip(stages, befores, strict=True)
    ]


def _energy(job: Job, draw: Draw | None, tokens_per_day: float, section: DeliverySection) -> EnergyDocument | None:
    if draw is None:
        return None
    tokens = job.workload.training.train_tokens
    kwh = None if tokens is None or tokens_per_day == 0.0 else draw.kwh_per_day * tokens / tokens_per_day
    return EnergyDocument(
        device_power_w=draw.device_w,
        site_power_w=draw.site_w,
        kwh_per_day=draw.kwh_per_day,
        kwh_per_billion_tokens=draw.kwh_per_day / tokens_per_day * 1e9 if tokens_per_day else 0.0,
        kwh=kwh,
        co2_kg=None if kwh is None or section.co2_kg_per_kwh is None else kwh * section.co2_kg_per_kwh,
    )


def _cost(job: Job, price: Price | None, tokens_per_day: float) -> CostDocument | None:
    if price is None:
        return None
    tokens = job.workload.training.train_tokens
    each = price.usd_per_day / tokens_per_day if tokens_per_day else 0.0
    return CostDocument(
        basis=price.basis,
        device_hour_usd=price.device_hour_usd,
        usd_per_day=price.usd_per_day,
        usd_per_trillion_tokens=each * 1e12,
        usd=None if tokens is None or not tokens_per_day else each * tokens,
    )
