"""Measured runs as the API takes and shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.text.json_documents import Document
from documents.said import Said

MAX_RUNS = 500


class RunsRequest(Document):
    runs: list[Any] = Field(
        min_length=1,
        max_length=MAX_RUNS,
        description="run records, in the form that `meshplan validate` reads one a line; what is none is refused in its place",
    )


class RunItem(Document):
    """A record with its prediction by the shipped or a chosen calibration, or with the reason why there is none (``refused``)."""

    id: str
    category: str | None
    predicted_step_time_s: float | None
    low_s: float | None = Field(description="lower end of the 80 % interval")
    high_s: float | None
    measured_step_time_s: float | None
    error_fraction: float | None = Field(description="predicted / measured - 1")
    refused: Said | None


class PredictedRuns(Document):
    """The records of a request, in their order, before they are stored."""

    items: list[RunItem]
    record_sha256: list[str | None] = Field(description="null where the record is refused")


class RunsDocument(Document):
    items: list[RunItem]
    stored: int = Field(description="records that were not stored before")
    refused: int


class DeletedRuns(Document):
    deleted: int = Field(description="number of records")


class StoredRun(Document):
    """A record as it was given."""

    id: str | None
    category: str | None
    owner: str | None = Field(description="whose key stored it; null without keys, and where an earlier version stored it")
    visibility: Literal["private", "public"] = Field(description="public: others list it and may calibrate on it")
    record_sha256: str = Field(description="of the record as JSON with sorted keys and no spaces")
    created_at_s: float
    record: dict[str, Any]
    prediction: RunItem | None = Field(description="null unless `predicted=true`")
