"""Fields of a profile in YAML: every number ``{value, unit, source, basis}``, with its plausible range."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from documents.bounds import MAX_DEVICES, MAX_TEXT
from documents.checking import OneOf, Section
from documents.errors import did_you_mean, show
from documents.sentences import Sentence, joined
from hardware_profiles.schema import LEAST_CAPABILITY, MOST_CAPABILITY, Basis, Status, Wiring
from hardware_profiles.units import UNITS, Dimension, names, to_si

PRECISIONS = ("bf16", "fp16", "fp8", "int8", "nvfp4", "mxfp4", "fp32", "tf32")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
FAMILIES = ("ascend", "nvidia", "amd")
MAX_TIERS = 6
MAX_CURVES = 64
MAX_POINTS = 256
MAX_NOTES = 32

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")


def _words(text: str) -> str:
    # Nothing that would move a terminal's cursor, and no lone surrogate that no encoding prints.
    if not text.strip() or not text.replace("\n", " ").isprintable():
        raise ValueError(Sentence("{} is not allowed; give 1 to {} printable characters.", show(text), MAX_TEXT))
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            Sentence("{} is not allowed; give lower-case letters, digits, dots and dashes, up to 64 of them.", show(text))
        )
    return text


Words = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_words)]
ProfileName = Annotated[str, AfterValidator(_name)]


class Stated(Section):
    """A number as its source states it."""

    value: float
    unit: str
    source: Words
    basis: Annotated[str, OneOf(*Basis)]
    note: Words = ""

    @property
    def values(self) -> tuple[float, ...]:
        """The number as stated."""
        return (self.value,)

    @property
    def si(self) -> float:
        """The number in SI units."""
        return to_si(self.value, self.unit)


class Points(Stated):
    """The numbers of a measured curve, which share unit and source."""

    value: Annotated[list[float], Field(min_length=2, max_length=MAX_POINTS)]  # type: ignore[assignment]

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers as stated."""
        return tuple(self.value)

    @property
    def points(self) -> tuple[float, ...]:
        """The numbers in SI units."""
        return tuple(to_si(value, self.unit) for value in self.values)


_Numbers = TypeVar("_Numbers", bound=Stated)


def _within(dimension: Dimension, low: float, high: float, *, whole: bool = False) -> AfterValidator:
    """Validator that rejects a unit of another dimension, and a number outside ``low`` to ``high`` in SI units."""

    def checked(stated: _Numbers) -> _Numbers:
        if stated.unit not in UNITS or UNITS[stated.unit].dimension is not dimension:
            allowed = names(dimension)
            hint = did_you_mean(stated.unit, allowed)
            raise ValueError(
                Sentence("unit {} is not allowed{}; give one of {}.", show(stated.unit), hint, joined(", ", allowed))
            )
        for value in stated.values:
            if not low <= to_si(value, stated.unit) <= high:
                raise ValueError(
                    Sentence(
                        "{} is not allowed; give {:g} to {}.", _measured(value, stated.unit), low, _measured(high, dimension)
                    )
                )
            if whole and not value.is_integer():
                raise ValueError(Sentence("{} is not allowed; give a whole number.", value))
        return stated

    return AfterValidator(checked)


def _measured(value: float, unit: str) -> str:
    return f"{value:g}" if unit == Dimension.COUNT else Sentence("{:g} {}", value, unit)


def _capability(stated: Stated) -> Stated:
    """Rejects what is no compute capability: sm_90 is 9.0."""
    bounded = LEAST_CAPABILITY <= stated.value <= MOST_CAPABILITY
    if stated.unit != Dimension.COUNT or not bounded or round(stated.value, 1) != stated.value:
        raise ValueError(
            Sentence(
                "{:g} {} is not allowed; give {} to {} with at most one decimal and unit 1, such as 9.0 for sm_90, not 90.",
                stated.value,
                stated.unit,
                LEAST_CAPABILITY,
                MOST_CAPABILITY,
            )
        )
    return stated


Rate = Annotated[Stated, _within(Dimension.FLOPS_PER_S, 1e9, 1e19)]
Memory = Annotated[Stated, _within(Dimension.BYTES, 1e9, 1e14)]
Bandwidth = Annotated[Stated, _within(Dimension.BYTES_PER_S, 1e6, 1e15)]


class Rates(Section):
    """Matmul rates by precision; one that the device lacks, or that nobody measured, is left out."""

    bf16: Rate | None = None
    fp16: Rate | None = None
    fp8: Rate | None = None
    int8: Rate | None = None
    nvfp4: Rate | None = None
    mxfp4: Rate | None = None
    fp32: Rate | None = None
    tf32: Rate | None = None

    @property
    def si(self) -> dict[str, float]:
        """The rates that are there, in SI units."""
        return {name: rate.si for name, rate in self if rate is not None}


class CurveSection(Section):
    """Measured times of one collective at one group size."""

    op: Annotated[str, OneOf(*COLLECTIVES)]
    message_bytes: Annotated[Points, _within(Dimension.BYTES, 1, 1e13)]
    time_s: Annotated[Points, _within(Dimension.SECONDS, 1e-9, 1e4)]
    group_size: Annotated[Stated, _within(Dimension.COUNT, 2, MAX_DEVICES, whole=True)]

    @model_validator(mode="after")
    def _one_time_a_size(self) -> Self:
        sizes, times = self.message_bytes.points, self.time_s.points
        if len(sizes) != len(times):
            raise ValueError(
                Sentence("time_s has {} points, message_bytes has {}; give one time a size.", len(times), len(sizes))
            )
        if any(later <= earlier for earlier, later in pairwise(sizes)):
            raise ValueError(Sentence("message_bytes does not increase from point to point."))
        return self


class TierSection(Section):
    """One level of the topology."""

    name: ProfileName
    wiring: Annotated[str, OneOf(*Wiring)]
    domain_devices: Annotated[Stated, _within(Dimension.COUNT, 2, 10 * MAX_DEVICES, whole=True)] | None = None
    bandwidth_bytes_per_s: Bandwidth
    latency_s: Annotated[Stated, _within(Dimension.SECONDS, 0, 1)]
    link_bytes_per_s: Bandwidth | None = None
    oversubscription: Annotated[Stated, _within(Dimension.COUNT, 1, 1_000)] | None = None
    curves: list[CurveSection] = Field(default=[], max_length=MAX_CURVES)


class ProfileSection(Section):
    """A whole profile; ``HardwareProfile`` says what each number is."""

    name: ProfileName
    title: Words
    family: Annotated[str, OneOf(*FAMILIES)]
    status: Annotated[str, OneOf(*Status)]
    device: Words
    compute_capability: Annotated[Stated, AfterValidator(_capability)] | None = None
    matmul_flops_per_s: Rates
    achievable_matmul_flops_per_s: Rates = Rates()
    vector_flops_per_s: Annotated[Stated, _within(Dimension.FLOPS_PER_S, 1e9, 1e18)]
    num_matmul_cores: Annotated[Stated, _within(Dimension.COUNT, 1, 65_536, whole=True)]
    clock_hz: Annotated[Stated, _within(Dimension.HERTZ, 1e7, 1e11)] | None = None
    hbm_bytes: Memory
    usable_hbm_bytes: Memory
    hbm_bytes_per_s: Annotated[Stated, _within(Dimension.BYTES_PER_S, 1e9, 1e15)]
    host_link_bytes_per_s: Annotated[Stated, _within(Dimension.BYTES_PER_S, 1e8, 1e14)]
    host_memory_bytes: Memory | None = None
    host_memory_bytes_per_s: Annotated[Stated, _within(Dimension.BYTES_PER_S, 1e9, 1e14)] | None = None
    context_bytes: Annotated[Stated, _within(Dimension.BYTES, 0, 1e13)]
    communicator_bytes: Annotated[Stated, _within(Dimension.BYTES, 0, 1e12)]
    tiers: Annotated[list[TierSection], Field(min_length=1, max_length=MAX_TIERS)]
    devices_per_node: Annotated[Stated, _within(Dimension.COUNT, 1, 4_096, whole=True)]
    sequential_tiers: bool
    power_w: Annotated[Stated, _within(Dimension.WATTS, 1, 1e5)] | None = None
    price_usd: Annotated[Stated, _within(Dimension.USD, 1, 1e8)] | None = None
    notes: list[Words] = Field(default=[], max_length=MAX_NOTES)
