"""The JSON document that a check prints."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.delivery_schemas import DeliverySummary
from app.answers.effort import Counts
from app.answers.schemas import EstimateNumbers, PricedWith
from app.answers.strategies import StrategyDocument
from app.checks.budget import BudgetDocument
from app.jobs.fields import JobDocument
from app.text.json_documents import Document
from documents.said import Said
from search.ranking.proof import Proof

ItemStatus = Literal["passed", "failed", "undetermined", "not_evaluated"]
Status = Literal["passed", "broken", "infeasible", "cut"]


class CheckRequest(JobDocument):
    """A job with its budget, its baseline or both."""

    budget: BudgetDocument | None = Field(default=None, description="needed without a baseline")
    baseline: dict[str, Any] | None = Field(
        default=None, description="an earlier answer: of POST /v1/checks, of POST /v1/estimates, or a file of the command"
    )
    pin: bool = Field(default=False, description="price with the baseline's calibration and profile")
    hardware_profile: dict[str, Any] | None = Field(
        default=None, description="the profile that `cluster.hardware` names, in full, where the server has none of that name"
    )
    calibration: dict[str, Any] | None = Field(
        default=None, description="the calibration that `software.calibration` names, in full, where the server stores none"
    )


class CheckItem(Document):
    """Result of one condition: ``strategy``, ``memory``, ``plan``, ``budget.METRIC.min|max`` or ``regression.METRIC``."""

    id: str
    status: ItemStatus
    sentence: Said
    metric: str | None
    value: float | None = Field(
        description="in the unit of the metric; of a regression, the part of the baseline that it is worse"
    )
    limit: float | None


class Movement(Document):
    """A metric in the baseline and now: ``value / before`` is ``(1 + tool_fraction) (1 + job_fraction)``."""

    metric: str
    before: float = Field(description="as the baseline holds it")
    repriced: float | None = Field(description="of the baseline's job at the prices of this check; null where it has none")
    value: float
    tool_fraction: float | None
    job_fraction: float | None
    worse_fraction: float | None


class PartMovement(Document):
    """A part of the step, or of the memory at its peak, in the baseline and now."""

    part: str
    before: float
    value: float
    change: float = Field(description="value - before")


class StoredHashes(Document):
    version: str | None
    calibration: str | None
    hardware_profile: str | None


class Comparison(Document):
    name: str
    pinned: bool
    priced_with: StoredHashes
    tool_changes: list[Said]
    job_changes: list[Said]
    movements: list[Movement]
    time_parts: list[PartMovement] = Field(description="of step_time_s [s], what moved most first; empty without a breakdown")
    memory_parts: list[PartMovement] = Field(description="of peak_memory_bytes [bytes], what moved most first")
    note: Said | None


class FoundPlan(Document):
    plan_id: str
    strategy: StrategyDocument
    estimate: EstimateNumbers


class SearchSummary(Document):
    counts: Counts
    proof: Proof
    total_s: float
    best: FoundPlan | None
    nearest: Said | None


class CheckDocument(Document):
    """Response of `POST /v1/checks`, and output of `meshplan check --format json`.

    A document with an estimate can be the baseline of another check.
    """

    schema_version: Literal[1]
    version: str
    status: Status
    exit_code: Literal[0, 3, 4, 5]
    checks: list[CheckItem]
    baseline: Comparison | None
    search: SearchSummary | None = Field(description="null where no search was needed")
    job: dict[str, Any] | None
    assumptions: list[Said]
    warnings: list[Said]
    priced_with: PricedWith | None
    strategy: StrategyDocument | None
    estimate: EstimateNumbers | None = Field(description="null where the strategy cannot run")
    delivery: DeliverySummary | None = Field(default=None, description="where the job has a site; left out otherwise")


class NamedCheck(Document):
    name: str = Field(description="the job as it was given")
    check: CheckDocument


class ChecksDocument(Document):
    """Output of `meshplan check --format json` for several jobs."""

    schema_version: Literal[1]
    version: str
    status: Status = Field(description="the worst of them: infeasible, broken, cut, passed")
    exit_code: Literal[0, 3, 4, 5]
    jobs: list[NamedCheck]
