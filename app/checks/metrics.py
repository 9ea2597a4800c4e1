"""The numbers that a budget can bound."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args

from app.answers.delivery_schemas import DeliverySummary
from app.answers.schemas import EstimateDocument, EstimateNumbers
from app.text.json_documents import plain
from documents.errors import InputError
from documents.quantities import gibibytes, percent, seconds
from documents.sentences import Sentence

SECONDS_PER_DAY = 86_400
SLOWDOWN = "slowdown_against_best_fraction"
DEVICE_DAYS = "device_days"

ESTIMATED = tuple(
    name
    for name, field in EstimateNumbers.model_fields.items()
    if field.annotation is float or set(get_args(field.annotation)) == {float, NoneType}
)
DELIVERED = tuple(name for name in DeliverySummary.model_fields if name != "intervals")  # metrics of a job with a site
MEASURES = (*ESTIMATED, *DELIVERED, DEVICE_DAYS)  # metrics of one strategy; a baseline has them too
METRICS = (*MEASURES, SLOWDOWN)
HIGHER_IS_BETTER = frozenset({
    "tokens_per_s", "tokens_per_s_per_device", "mfu_fraction", "memory_limit_bytes", "headroom_bytes", "fit_limit_bytes",
    "fits_probability", "mtbf_s", "effective_time_fraction", "delivered_tokens_per_day",
})  # fmt: skip


def numbers_of(priced: EstimateDocument) -> dict[str, Any]:
    """Values of all metrics that a budget can bound, by name."""
    delivered = {} if priced.delivery is None else plain(priced.delivery)
    return {**plain(priced.estimate), **delivered}


def measured(metric: str, estimate: Mapping[str, Any], job: Mapping[str, Any], *, where: str) -> float:
    """The metric of a priced strategy; ``InputError``, which begins with ``where``, if this job has no such number."""
    if metric == DEVICE_DAYS:
        tokens = job["training"]["train_tokens"]
        if tokens is None:
            raise InputError(
                Sentence("{}.{}: there is no number of tokens to count days for; give training.train_tokens.", where, metric)
            )
        days = tokens / estimate["tokens_per_s"] / SECONDS_PER_DAY
        return float(days * job["cluster"]["num_devices"])
    if metric in DELIVERED and metric not in estimate:
        raise InputError(Sentence("{}.{}: the job has no site to be delivered on; give it a section delivery.", where, metric))
    value = estimate[metric]
    if value is None:
        raise InputError(Sentence("{}.{}: the estimate of this job has no such number; leave it out.", where, metric))
    return float(value)


def worsening(metric: str, before: float, after: float) -> float | None:
    """Relative worsening of the metric, negative for an improvement; None if it is undefined."""
    change = before - after if metric in HIGHER_IS_BETTER else after - before
    if change == 0:
        return 0.0
    return change / abs(before) if before else None


def shown(metric: str, value: float) -> str:
    """The number as a person reads it, with its unit."""
    if metric.endswith("_bytes"):
        return gibibytes(value)
    if metric.endswith(("_fraction", "_probability")):
        return percent(value, 2)
    if metric == "delivered_tokens_per_day":
        return Sentence("{:,.0f} tokens a day", value)
    if metric == "delivered_days":
        return Sentence("{:,.1f} days", value)
    if metric.startswith("tokens"):
        return Sentence("{:,.1f} tokens/s", value)
    if metric == DEVICE_DAYS:
        return Sentence("{:,.1f} device-days", value)
    return seconds(value)
