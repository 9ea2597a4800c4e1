"""Studies as their readers see them, and what can be wrong with a request about one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class StudyNotFound(LookupError):  # noqa: N818 - an answer that callers expect, not a fault
    """There is no such study."""


class PlanNotFound(LookupError):  # noqa: N818
    """The study has no such plan."""


class StudyConflict(Exception):  # noqa: N818
    """The study's state does not allow it; the message is one sentence."""


class StudyChanged(Exception):  # noqa: N818
    """The study is no longer the version that the caller saw."""


@dataclass(frozen=True)
class StudySummary:
    id: str
    state: str
    etag_version: int
    model: str
    hardware: str
    num_devices: int
    objective: str
    sampler: str
    created_at_s: float
    started_at_s: float | None
    finished_at_s: float | None
    cancel_requested: bool
    attempts: int
    error: str | None
    progress: dict[str, Any] | None


@dataclass(frozen=True)
class BestPlan:
    """A study's first plan, on one line."""

    plan_id: str
    step_time_s: float
    step_time_low_s: float | None
    step_time_high_s: float | None
    tokens_per_s: float
    mfu_fraction: float | None
    peak_memory_bytes: float
    headroom_bytes: float


@dataclass(frozen=True)
class ListedStudy(StudySummary):
    best: BestPlan | None
    proved_best: bool | None  # None without a result


@dataclass(frozen=True)
class StudyView(StudySummary):
    job: dict[str, Any]
    assumptions: list[str]
    warnings: list[str]
    version: str
    seed: int
    space: dict[str, Any]
    hardware_profile: dict[str, Any]
    calibration: dict[str, Any]
    result: dict[str, Any] | None


@dataclass(frozen=True)
class EventView:
    sequence: int
    kind: str  # state | progress
    data: dict[str, Any]
    at_s: float


@dataclass(frozen=True)
class Page(Generic[Item]):
    """``next_after`` asks for the page behind this one; None at the end."""

    items: tuple[Item, ...]
    next_after: int | None
