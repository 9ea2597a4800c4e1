"""Schema of a run that would reduce the uncertainty of a job."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.text.json_documents import Document
from documents.said import Said


class NextRun(Document):
    """A run to measure: its job, its cost, and the spread of the job's log step time before and after it."""

    job: dict[str, Any] = Field(description="a job file with strategy, for `meshplan estimate`")
    record: dict[str, Any] = Field(
        description="line of RUNS.jsonl for `meshplan calibrate`, whose measured.step_time_s is yours to fill"
    )
    title: Said
    num_devices: int
    num_steps: int = Field(description="take the median of the later half")
    step_time_s: float = Field(description="predicted")
    device_s: float = Field(description="devices times seconds, the start included")
    share_of_job: float = Field(description="of what as many steps of the job take")
    spread_before: float = Field(description="one standard deviation of the job's log step time before this run, and after it")
    spread_after: float
