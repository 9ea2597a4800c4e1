"""Schemas of published runs and their predictions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.calibrations.schemas import ConstantDocument
from app.text.json_documents import Document
from calibration.files.calibrations import FAMILIES
from documents.checking import OneOf
from documents.said import Said

Family = Annotated[str, OneOf(*FAMILIES)]


class RunSource(Document):
    """Publication of a run."""

    title: str
    url: str
    locator: str
    date: str


class RunStrategy(Document):
    """Strategy of a run as its source states it; null if the source does not state a field."""

    tp: int
    pp: int
    vpp: int | None
    cp: int
    ep: int
    dp: int
    micro_batch_size: int | None


class PublishedRun(Document):
    """A published run with its prediction by the shipped calibration, or with the reason why there is none (``refused``)."""

    id: str
    family: Family
    category: str | None
    model: str
    hardware: str
    hardware_basis: str = Field(description="how sure the hardware is: `named`, `likely` or `unclear`")
    num_devices: int
    framework: str = Field(description="as its source names it")
    stack: str | None = Field(description="as a job names it")
    precision: str
    seq_length: int
    global_batch_size: int | None
    strategy: RunStrategy
    is_latest: bool = Field(description="the newest run of its configuration")
    suspect: str | None = Field(description="why its measurement is not to be judged by")
    measured_step_time_s: float | None
    predicted_step_time_s: float | None
    low_s: float | None = Field(description="lower end of the 80 % interval")
    high_s: float | None
    error_fraction: float | None = Field(description="predicted / measured - 1")
    left_out_error_fraction: float | None = Field(
        description="the same with constants fitted without any run of its architecture; null for runs that taught nothing"
    )
    publication_left_out_error_fraction: float | None = Field(
        default=None, description="the same with every run of its document left out of the fit and of all that was ever tuned"
    )
    left_out_inside: bool | None = Field(description="whether the interval that other publications give holds it")
    predicted_peak_memory_bytes: float | None
    measured_peak_memory_bytes: float | None
    peak_memory_basis: str | None
    memory_error_fraction: float | None
    refused: Said | None
    warnings: list[Said]
    source: RunSource


class BandDocument(Document):
    """80 % interval of measured / predicted of one kind of model."""

    kind: str
    low: float
    high: float
    num_runs: int


class CoverageDocument(Document):
    """Number and size of measured runs for one hardware, stack and kind of model."""

    hardware: str
    stack: str
    kind: str
    num_runs: int
    max_devices: int
    max_seq_length: int


class ShippedCalibration(Document):
    """Constants that price every job of the family that names no calibration of its own."""

    family: Family
    id: str
    num_runs: int
    command: str
    constants: list[ConstantDocument]
    bands: list[BandDocument]
    coverage: list[CoverageDocument]


class AccuracyDocument(Document):
    calibrations: list[ShippedCalibration]
    runs: list[PublishedRun]
