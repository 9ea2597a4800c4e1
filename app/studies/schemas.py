"""Studies as the API shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.reports.schemas import Baseline, Counts, Document, LaunchDocument, Plan, Proof, StrategyDocument, Timing

State = Literal["queued", "running", "completed", "failed", "cancelled"]


class StudySummary(Document):
    """A study on one line. Times are seconds since 1970."""

    id: str
    state: State
    model: str
    hardware: str
    num_devices: int
    objective: str
    sampler: str
    created_at_s: float
    started_at_s: float | None
    finished_at_s: float | None
    cancel_requested: bool
    attempts: int = Field(description="how often a worker took it up")
    error: str | None = Field(description="why it failed")
    progress: dict[str, Any] | None


class StudyResult(Document):
    """What a search found, apart from its plans and rejections, which have pages of their own."""

    counts: Counts
    proof: Proof
    timing: Timing
    baseline: Baseline | None
    nearest: str | None


class StudyDocument(StudySummary):
    """A study with all that is needed to run it again."""

    job: dict[str, Any]
    assumptions: list[str]
    warnings: list[str]
    version: str
    seed: int
    space: dict[str, Any]
    hardware_profile: dict[str, Any]
    calibration: dict[str, Any]
    result: dict[str, Any] | None = Field(description="counts, proof, timing, baseline, nearest; null until it has finished")


class FinishedStudyDocument(StudyDocument):
    """The answer to a request that waited for the result."""

    plans: list[Plan]


class Trial(Document):
    """One stored evaluation of a sampler."""

    number: int
    strategy: StrategyDocument | dict[str, Any]
    outcome: Literal["fits", "too_large", "illegal"]
    rule: str | None
    step_time_s: float | None
    peak_memory_bytes: float | None
    value: float | None
    best_value: float | None
    duplicate_of: int | None
    source: Literal["baseline", "sampled"]


class PlanLaunch(Document):
    """How to start a plan on each framework that takes it."""

    plan_id: str
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]
