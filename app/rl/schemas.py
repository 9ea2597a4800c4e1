"""What ``meshplan rl`` prints and ``/v1/rl`` answers."""

from __future__ import annotations

from pydantic import Field

from app.text.documents import Document


class RlValidationRow(Document):
    """One record: predicted, measured, predicted / measured - 1. A refused one has a sentence and no prediction."""

    id: str
    kind: str | None
    predicted: float | None
    measured: float | None
    unit: str | None = Field(description="of both: s, ms, tokens/s, tokens/s/device, tokens/s/package")
    error_fraction: float | None
    refused: str | None
    assumed: list[str] = Field(description="what the record does not say, and what took its place")
    parts: dict[str, float] = Field(description="of the prediction")
    suspect: str | None


class RlErrors(Document):
    """Errors of the predicted rows of one kind. Pairs: steps of one model and hardware that differ by more than noise."""

    count: int
    median_abs_error_fraction: float | None
    mean_abs_error_fraction: float | None
    bias_fraction: float | None
    num_pairs: int
    pairs_in_order_fraction: float | None


class RlSummary(Document):
    num_refused: int
    kinds: dict[str, RlErrors]


class RlValidationDocument(Document):
    """What ``meshplan rl validate --json`` prints."""

    schema_version: int
    rows: list[RlValidationRow]
    summary: RlSummary
