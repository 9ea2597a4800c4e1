"""A played step, as the API shows it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.schemas import Document


class TaskColumns(Document):
    """One entry a bar, by rank, stream and start; no two of one rank and stream overlap."""

    rank: list[int] = Field(description="pipeline rank")
    stream: list[int] = Field(description="position in `streams`")
    kind: list[int] = Field(description="position in `kinds`")
    chunk: list[int] = Field(description="virtual stage on the rank; -1 where the bar belongs to none")
    micro_batch: list[int] = Field(description="of the step, from 0; -1 where the bar belongs to none")
    start_s: list[float]
    end_s: list[float]


class MemoryColumns(Document):
    """One entry a rank. `bytes[i][j]` are allocated from `time_s[i][j]` to the next time."""

    rank: list[int]
    time_s: list[list[float]]
    bytes: list[list[float]]


class PlanTimeline(Document):
    """A plan's step played task by task, from 0 to `step_time_s`, where the last bar ends.

    Played now, with the study's own profile and constants. Where a schedule lets steps overlap (zb2p, zbv), the time of each rank
    begins with its own step.
    """

    schema_version: Literal[1]
    step_time_s: float = Field(gt=0)
    num_ranks: int = Field(description="pipeline ranks; the ranks of other groups do as these do")
    streams: list[str]
    kinds: list[str]
    tasks: TaskColumns
    memory: MemoryColumns
    bubble_s: list[float] = Field(description="idle time of each rank")


class TraceEvents(Document):
    """The same step in Chrome's trace event format, which Perfetto and MindStudio Insight open; times in microseconds."""

    displayTimeUnit: Literal["ms"]  # noqa: N815 - the format's own spelling
    traceEvents: list[dict[str, Any]]  # noqa: N815 - the format's own spelling
