"""Schemas of calibrations, and of predictions for measured runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.calibrations.next_run import NextRun
from app.text.json_documents import Document
from calibration.validation.predictions import ErrorSummary, ValidationRow
from documents.said import Said


class CalibrationRequest(Document):
    hardware: str = Field(description="name of a shipped hardware profile")
    stack: str = Field(description="framework the runs used")
    shared: bool = Field(
        default=False, description="true: also runs of others that are public, and of nobody, such as an earlier version stored"
    )


class CalibrationSummary(Document):
    id: str = Field(description="the fingerprint of the calibration's content")
    owner: str | None = Field(default=None, description="whose key stored it; null without keys")
    visibility: Literal["link", "public"] = Field(default="public", description="link: others use it only by its id")
    created_at_s: float
    version: str
    hardware: str
    stack: str
    num_runs: int = Field(description="runs that taught something")


class ConstantDocument(Document):
    """Spreads are one standard deviation of the logarithm."""

    name: str
    value: float
    prior: float
    prior_log_spread: float
    log_spread: float


class LearnedConstant(ConstantDocument):
    """A constant before and after; spreads are one standard deviation of its logarithm."""

    learned_fraction: float = Field(description="how much of the spread the runs took away")


class FactorDocument(Document):
    """The one number that would explain the runs in place of fitted constants."""

    value: float = Field(description="for `cluster.time_factor`: geometric median of what each run asks for")
    num_runs: int
    num_inside: int = Field(description="runs inside the interval of the shipped calibration without it")


class ErrorsDocument(Document):
    median_abs_error_fraction: float
    mean_abs_error_fraction: float
    bias_fraction: float


class ErrorsBeforeAndAfter(Document):
    """Prediction errors of three calibrations.

    ``before``: the shipped calibration. ``left_out``: this calibration, fitted without each run's group. ``fitted``: this
    calibration.
    """

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
    reason: Said


class Learned(Document):
    """Result of a fit to runs: constants, errors before and after, and warnings."""

    hardware: str
    stack: str
    num_runs: int = Field(description="runs that taught something")
    constants: list[LearnedConstant]
    on_bound: list[str]
    time_factor: FactorDocument | None = Field(default=None, description="null in a calibration of an earlier version")
    errors: ErrorsBeforeAndAfter
    rows: list[CalibrationRow]
    refused: list[RefusedRow]
    warnings: list[Said]


class WrittenCalibration(Document):
    schema_version: Literal[1]
    file: str = Field(description="the file that was written, for `--calibration`")
    fingerprint: str


class CalibrateDocument(Learned, WrittenCalibration):
    """Output of `meshplan calibrate --json`."""


class CalibrationDocument(Learned, CalibrationSummary):
    """A calibration with the results of its fit, and its file for `--calibration`."""

    calibration: dict[str, Any] = Field(description="save it as a file for `--calibration`")


class Fit(Document):
    """A calibration before it is stored."""

    id: str
    family: str
    constants: dict[str, Any]
    report: Learned


class SuggestDocument(Document):
    """Output of `meshplan calibrate --suggest --json`."""

    schema_version: Literal[1]
    runs: list[NextRun] = Field(description="the one to make first first")


class ValidationSummary(Document):
    num_refused: int
    categories: dict[str, ErrorSummary]


class ValidationDocument(Document):
    """Output of `meshplan validate --json`."""

    schema_version: Literal[1]
    rows: list[ValidationRow]
    summary: ValidationSummary
