"""Schemas of measurements on a device."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.text.json_documents import Document
from documents.said import Said


class CaseRow(Document):
    kind: str
    operation: str
    precision: str
    sizes: dict[str, int]


class MeasuredRow(CaseRow):
    """Measurement of one operation; times are of one call."""

    kernel: str
    measured_s: float = Field(description="at the rate that the device keeps")
    burst_s: float = Field(description="of the fastest batch")
    flops_per_s: float | None = Field(description="of matmuls and attention")
    modelled_s: float | None = Field(description="null without --hardware, and where the model has no formula")
    measured_over_modelled: float | None
    pool_over_allocated: float | None = Field(description="of a layer: the allocator's pool over what it gave out")
    modelled_pool_over_allocated: float | None


class SkippedRow(CaseRow):
    reason: Said


class MeasureDocument(Document):
    """Output of `meshplan hardware measure --json`."""

    schema_version: Literal[1]
    file: str = Field(description="the file that was written, for `hardware calibrate --measurements`")
    hardware: str | None = Field(description="profile that is compared with")
    is_complete: bool
    medians: dict[str, float] = Field(
        description="of measured_over_modelled by what a constant stands for; empty without --hardware"
    )
    results: list[MeasuredRow]
    skipped: list[SkippedRow]
