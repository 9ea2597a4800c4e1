"""Schemas of the throughput of a plan on a site with failures."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.schemas import Answer, EstimateNumbers, PricedWith
from app.answers.step_interval import Intervals
from app.answers.strategies import StrategyDocument
from app.text.json_documents import Document
from documents.said import Said


class Quantiles(Document):
    """Mean and quantiles of simulated histories."""

    mean: float = Field(description="in the long run, by the closed form")
    p10: float
    p50: float
    p90: float


class SureBy(Document):
    """A time by which the tokens are trained with some probability."""

    probability: float
    days: float


class LossSpikesDocument(Document):
    """Roll-backs by spikes of the loss."""

    number: float | None = Field(description="over training.train_tokens; null without them")
    skipped_tokens: float | None = Field(description="of data that no step sees, over training.train_tokens; null without them")
    rollback_s: float = Field(description="of useful time before the decision, at the least; repeated")
    recovery_s: float = Field(description="from the decision to the next useful step")


class CheckpointDocument(Document):
    total_bytes: float
    device_bytes: float = Field(description="of the device that writes most")
    blocking_s: float
    drain_s: float = Field(description="storage is busy after that, while training goes on; safe only then")
    load_s: float
    interval_s: float = Field(description="useful time between two: the one given, or the best")
    young_interval_s: float | None = Field(description="by Young's rule; null where no failure loses work")
    daly_interval_s: float | None


class DeliveryChange(Document):
    """Effect of one change of the site or the job."""

    change: Said
    effective_time_fraction: float
    delivered_tokens_per_day: float
    gain_fraction: float = Field(description="of delivered tokens")


class Stage(Document):
    """A step of the waterfall from the devices' peak to the delivered tokens."""

    stage: str
    tokens_per_day: float
    of_the_one_before: float


class EnergyDocument(Document):
    device_power_w: float = Field(description="mean, with the device's share of hosts and site")
    site_power_w: float = Field(description="of all devices and spares")
    kwh_per_day: float
    kwh_per_billion_tokens: float
    kwh: float | None = Field(description="for training.train_tokens; null without")
    co2_kg: float | None = Field(description="for training.train_tokens; null without, or without delivery.co2_kg_per_kwh")


class CostDocument(Document):
    basis: Said
    device_hour_usd: float
    usd_per_day: float = Field(description="devices and spares, and energy where it has a price")
    usd_per_trillion_tokens: float
    usd: float | None = Field(description="for training.train_tokens; null without")


class StretchDocument(Document):
    """A time span in which the job has one state."""

    start_s: float
    end_s: float
    state: Literal["runs", "recovers", "waits"]
    rate: float = Field(description="of useful work, of the full one")
    ended_by: str | None = Field(description="class of the failure at its end")
    repeated_s: float = Field(description="of useful work, lost by that failure")


class MonthDocument(Document):
    """Events of one simulated month."""

    span_s: float = Field(description="30 days, or as much of them as 1,000 stretches tell")
    stretches: list[StretchDocument]


class OnDevices(Document):
    """Result with other numbers of devices and replicas; degrees and batch are the same."""

    num_devices: int
    step_time_s: float
    fits: bool
    effective_time_fraction: float
    delivered_tokens_per_day: float
    delivered_days: float | None = Field(description="to training.train_tokens; null without them, or where it never ends")
    usd_per_trillion_tokens: float | None = Field(description="of devices and spares; null without a price")


class DeliveringPlan(Document):
    plan_id: str
    strategy: StrategyDocument
    step_time_s: float
    effective_time_fraction: float
    delivered_tokens_per_day: float


class GoodputDocument(Answer):
    """Response of `POST /v1/goodput`, and output of `meshplan goodput --json`."""

    priced_with: PricedWith
    strategy: StrategyDocument
    estimate: EstimateNumbers
    site: dict[str, Any] = Field(description="the job's `delivery`, with every default resolved")
    mtbf_s: float | None = Field(description="between interruptions; null where nothing fails")
    effective_time_fraction: float = Field(description="useful time at full rate over wall time")
    delivered_tokens_per_day: float
    delivered_tokens_per_day_by_month: Quantiles = Field(description="over months of 30 days; the step is as estimated")
    days: Quantiles | None = Field(description="to training.train_tokens; null without them, or where it never ends")
    days_with_step: Quantiles | None = Field(
        description="the same with the error of the step, which is independent of failures; equal to days where it has none"
    )
    sure_by: list[SureBy] | None = Field(description="days_with_step at some probabilities; null where days are")
    loss_spikes: LossSpikesDocument | None = Field(description="null without loss spikes")
    losses: dict[str, float] = Field(description="fractions of the wall time; with `useful` they sum to 1")
    checkpoint: CheckpointDocument
    replicas: int = Field(description="data-parallel replicas, each with all experts")
    nodes_in_repair: float = Field(description="in the mean")
    changes: list[DeliveryChange] = Field(description="the largest gain first")
    waterfall: list[Stage]
    month: MonthDocument
    on_devices: list[OnDevices] = Field(description="from an eighth of the devices to eight times as many, where that is legal")
    energy: EnergyDocument | None = Field(description="null where nobody knows what a device draws")
    cost: CostDocument | None = Field(description="null without a price")
    intervals: Intervals = Field(
        default={},
        description="80 % intervals of numbers here that follow from the step, and those for all tokens from the failures too",
    )
    plans: list[DeliveringPlan] | None = Field(default=None, description="of the search, where the job names no strategy")
