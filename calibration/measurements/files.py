"""The file of measurements: written case by case, read back by ``meshplan hardware calibrate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from calibration.measurements.cases import KINDS, PRECISIONS, Case, Kind
from calibration.measurements.timing import MAX_BATCHES, MAX_CALLS, Measured, Skipped, Timing
from documents.bounds import MAX_RANKS, Line, LongLine
from documents.checking import LenientSection, OneOf, check
from documents.errors import InputError, did_you_mean, show
from documents.late_methods import dataclass
from documents.reading import Limits, read_document
from documents.sentences import Sentence, joined
from hardware_profiles.schema import LEAST_CAPABILITY, MOST_CAPABILITY

FORMAT = "meshplan-measurements/1"
MAX_RESULTS = 10_000
_LIMITS = Limits(8 * 2**20)
_MAX_SIZE = 2**50

Seconds = Annotated[float, Field(ge=1e-9, le=1e6)]
Bytes = Annotated[int, Field(ge=0, le=_MAX_SIZE)]


@dataclass(frozen=True)
class Device:
    """The measured device: ``name`` is its driver's name, ``kind`` cuda, npu or cpu; ``compute_capability`` is of a GPU."""

    name: str
    kind: str
    num_ranks: int
    compute_capability: float | None = None


@dataclass(frozen=True)
class Measurements:
    """The measurements of a device; ``is_complete`` is false after an interrupt."""

    device: Device
    software: tuple[tuple[str, str], ...]
    method: str
    seconds: float
    results: tuple[Measured, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    is_complete: bool = False


class _CaseSection(LenientSection):
    kind: Annotated[str, OneOf(*Kind)]
    operation: Line
    precision: Annotated[str, OneOf(*PRECISIONS)]
    sizes: dict[Line, Annotated[int, Field(ge=1, le=_MAX_SIZE)]] = Field(description="by the names that the kind has")

    @model_validator(mode="after")
    def _as_its_kind_says(self) -> Self:
        kind = KINDS[Kind(self.kind)]
        if self.operation not in kind.operations:
            hint = did_you_mean(self.operation, kind.operations)
            raise ValueError(
                Sentence(
                    "operation {} is none of {}{}; give one of {}.",
                    show(self.operation),
                    self.kind,
                    hint,
                    joined(", ", kind.operations),
                )
            )
        if set(self.sizes) != set(kind.sizes):
            raise ValueError(
                Sentence(
                    "sizes {} are not those of {}: {}.", joined(", ", map(show, self.sizes)), self.kind, joined(", ", kind.sizes)
                )
            )
        return self

    @property
    def case(self) -> Case:
        kind = Kind(self.kind)
        return Case(kind, self.operation, self.precision, tuple(self.sizes[name] for name in KINDS[kind].sizes))


class _ResultSection(_CaseSection):
    """One operation at one size; every time is for one call."""

    kernel: Line = Field(description="what was called")
    is_fused: bool = Field(description="one kernel; else the library's plain operators one after the other")
    num_calls: Annotated[int, Field(ge=1, le=MAX_CALLS * MAX_BATCHES)]
    elapsed_s: Seconds
    time_s: Seconds = Field(description="median of the later half: the rate that the device keeps")
    burst_time_s: Seconds = Field(description="of the fastest batch")
    spread_fraction: Annotated[float, Field(ge=0, le=1e6)] = Field(description="range of the middle 80 % over the median")
    allocated_bytes: Bytes | None = Field(default=None, description="peak of the framework's allocator")
    reserved_bytes: Bytes | None = Field(default=None, description="its pool at the same time")

    @property
    def measured(self) -> Measured:
        timing = Timing(self.num_calls, self.elapsed_s, self.time_s, self.burst_time_s, self.spread_fraction)
        return Measured(self.case, self.kernel, self.is_fused, timing, self.allocated_bytes, self.reserved_bytes)


class _SkippedSection(_CaseSection):
    """One operation that did not run."""

    reason: LongLine


class _DeviceSection(LenientSection):
    name: Line = Field(description="as its driver calls it")
    kind: Annotated[str, OneOf("cuda", "npu", "cpu")]
    num_ranks: Annotated[int, Field(ge=1, le=MAX_RANKS)]
    compute_capability: Annotated[float, Field(ge=LEAST_CAPABILITY, le=MOST_CAPABILITY)] | None = Field(
        default=None, description="of a GPU, as PyTorch says"
    )


class _MethodSection(LenientSection):
    description: LongLine
    seconds: Annotated[float, Field(gt=0, le=1e6)] = Field(description="for which each operation was repeated")


class MeasurementsDocument(LenientSection):
    """What ``meshplan hardware measure`` writes."""

    format: Literal["meshplan-measurements/1"]
    device: _DeviceSection
    software: dict[Line, Line] = Field(description="versions by name")
    method: _MethodSection
    is_complete: bool = Field(description="false: interrupted, and what follows is what was measured until then")
    results: list[_ResultSection] = Field(max_length=MAX_RESULTS)
    skipped: list[_SkippedSection] = Field(default=[], max_length=MAX_RESULTS)


def measurements_text(measurements: Measurements) -> str:
    """The content of the file, which ``MeasurementsDocument`` describes."""
    document = {
        "format": FORMAT,
        "device": asdict(measurements.device),
        "software": dict(measurements.software),
        "method": {"description": measurements.method, "seconds": measurements.seconds},
        "is_complete": measurements.is_complete,
        "results": [_result(result) for result in measurements.results],
        "skipped": [{**_case(skipped.case), "reason": skipped.reason} for skipped in measurements.skipped],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_measurements(path: Path) -> Measurements:
    """The measurements in a file; ``InputError`` with one sentence."""
    document = read_document(path, _LIMITS, is_json=True)
    try:
        found = check(MeasurementsDocument, document)
    except InputError as error:
        raise InputError(Sentence("{}: {}", path, error)) from None
    return Measurements(
        Device(found.device.name, found.device.kind, found.device.num_ranks, found.device.compute_capability),
        tuple(found.software.items()),
        found.method.description,
        found.method.seconds,
        tuple(section.measured for section in found.results),
        tuple(Skipped(section.case, section.reason) for section in found.skipped),
        found.is_complete,
    )


def one_line(text: str) -> str:
    """Text of another program, shortened for the file: its first line, printable, not too long."""
    first: Sequence[str] = text.strip().splitlines()
    return "".join(letter for letter in (first[0] if first else "") if letter.isprintable())[:500] or Sentence("no reason given")


def _case(case: Case) -> dict[str, Any]:
    return {"kind": case.kind.value, "operation": case.operation, "precision": case.precision, "sizes": case.by_name}


def _result(result: Measured) -> dict[str, Any]:
    memory = {"allocated_bytes": result.allocated_bytes, "reserved_bytes": result.reserved_bytes}
    return {
        **_case(result.case),
        "kernel": result.kernel,
        "is_fused": result.is_fused,
        **asdict(result.timing),
        **{name: value for name, value in memory.items() if value is not None},
    }
