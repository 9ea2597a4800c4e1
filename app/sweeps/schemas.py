"""Schemas of a sweep."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.schemas import Answer, PricedWith
from app.answers.step_interval import INTERVALS, Intervals
from app.answers.strategies import StrategyDocument
from app.text.json_documents import Document
from documents.said import Said


class SweepPoint(Document):
    """The best plan of one combination; numbers are null where there is none."""

    point: int = Field(description="from 1")
    hardware: str
    stack: str
    target: str
    num_devices: int
    global_batch_size: int
    seq_length: int
    state: Literal["proved", "found", "infeasible", "refused"] = Field(
        description="`found`: the search was cut, so that better plans may exist; `refused`: no job, and `reason` says why"
    )
    reason: Said | None = Field(description="why there is no plan; null with one")
    plan_id: str | None = None
    strategy: StrategyDocument | None = None
    step_time_s: float | None = None
    step_time_low_s: float | None = None
    step_time_high_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_device: float | None = None
    mfu_fraction: float | None = None
    peak_memory_bytes: float | None = None
    headroom_bytes: float | None = Field(default=None, description="of what a job can fill; `fit_limit_bytes` decides")
    fit_limit_bytes: float | None = Field(default=None, description="the largest peak by which a plan counts as fitting")
    fits_probability: float | None = None
    bottleneck: str | None = None
    linearity_fraction: float | None = Field(
        default=None, description="tokens a second of a device over those at the smallest count of its curve"
    )
    marginal_fraction: float | None = Field(
        default=None, description="what a device beyond the count before brings, over one at the smallest count"
    )
    effective_time_fraction: float | None = Field(default=None, description="where failures count (`site`); else null")
    days: float | None = Field(default=None, description="to the token budget")
    device_days: float | None = None
    energy_kwh: float | None = Field(default=None, description="null where nobody knows what a device draws")
    cost_usd: float | None = Field(default=None, description="null without a price")
    intervals: Intervals = INTERVALS
    sure_days: float | None = Field(
        default=None, description="in which the tokens are trained with sweep.deadline_confidence, or with 80 % without one"
    )
    within_probability: float | None = Field(
        default=None,
        description="that the deadline is met, by the error of the step; null without either",
    )
    within: bool | None = Field(default=None, description="the constraints; null without a plan")


class Curve(Document):
    """Points that differ in devices alone, or in devices and the batch that grows with them."""

    hardware: str
    stack: str
    target: str
    seq_length: int
    global_batch_size: int = Field(description="at the smallest count")
    points: list[int] = Field(description="with a plan, by devices")
    knee_devices: int | None = Field(
        description="the last count before a further device brings less than half of one at the smallest; null: not reached"
    )


class Structure(Document):
    """A parallel structure, and the points whose best plan has it."""

    tp: int
    pp: int
    cp: int
    ep: int
    vpp: int
    schedule: str
    points: list[int]


class Winner(Document):
    """The best point within the constraints."""

    point: int
    objective: str
    value: float = Field(description="of the objective: days, device-days, USD, kWh or bytes")
    why: Said


class SweepDocument(Answer):
    """Response of `POST /v1/sweeps`, and output of `meshplan sweep --json`."""

    version: str
    priced_with: list[PricedWith] = Field(description="one entry for each hardware and stack")
    tokens: float = Field(description="the budget behind days, energy and cost")
    constraints: dict[str, float]
    num_points: int
    num_done: int
    stopped_by: str | None = Field(
        description="time_limit | interrupt | max_simulations; null where every point is proved or settled"
    )
    points: list[SweepPoint]
    curves: list[Curve]
    pareto: list[int] = Field(description="points within no constraint but that no other equals or beats in days and in cost")
    pareto_of: list[str] = Field(description="what the front weighs: days against cost_usd, or device_days without a price")
    structures: list[Structure]
    best: Winner | None
    why_none: Said | None = Field(description="why no point is the best; null with one")
    site: dict[str, Any] | None = Field(description="whose failures count: the job's `delivery`; null where none do")
    elapsed_s: float
