"""Calibrations as the API takes and shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.reports.schemas import Document


class CalibrationRequest(Document):
    hardware: str = Field(description="name of a shipped hardware profile")
    stack: str = Field(description="framework the runs used")


class CalibrationSummary(Document):
    id: str = Field(description="the fingerprint of the calibration's content")
    created_at_s: float
    version: str
    hardware: str
    stack: str
    num_runs: int = Field(description="runs that taught something")


class LearnedConstant(Document):
    """A constant before and after; spreads are one standard deviation of its logarithm."""

    name: str
    value: float
    prior: float
    prior_log_spread: float
    log_spread: float
    learned_fraction: float = Field(description="how much of the spread the runs took away")


class ErrorsDocument(Document):
    median_abs_error_fraction: float
    mean_abs_error_fraction: float
    bias_fraction: float


class ErrorsBeforeAndAfter(Document):
    """Of the shipped calibration, of this one with each run's group left out, and of the fit itself."""

    left_out_by: Literal["architecture", "run"]
    before: ErrorsDocument
    left_out: ErrorsDocument
    fitted: ErrorsDocument


class CalibrationRow(Document):
    id: str
    error_before_fraction: float
    error_left_out_fraction: float


class RefusedRow(Document):
    id: str
    reason: str


class CalibrationDocument(CalibrationSummary):
    """A calibration with what it learned, and the file that ``--calibration`` takes."""

    constants: list[LearnedConstant]
    on_bound: list[str]
    errors: ErrorsBeforeAndAfter
    rows: list[CalibrationRow]
    refused: list[RefusedRow]
    warnings: list[str]
    calibration: dict[str, Any] = Field(description="save it as a file for `--calibration`")
