"""What a plan delivers on a site with failures, as a part of answers."""

from __future__ import annotations

from pydantic import Field

from app.answers.step_interval import INTERVALS, Intervals
from app.text.json_documents import Document


class DeliverySummary(Document):
    """Throughput of a plan with the failures of the job's site; `meshplan goodput` gives details."""

    mtbf_s: float | None = Field(description="between interruptions; null where nothing fails")
    effective_time_fraction: float = Field(description="useful time at full rate over wall time")
    delivered_tokens_per_day: float
    delivered_days: float | None = Field(description="for training.train_tokens, in the mean; null without, or without an end")
    intervals: Intervals = INTERVALS
