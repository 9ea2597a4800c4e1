"""Units of profiles and their conversion to SI. No other module converts units."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from documents.late_methods import dataclass

_KIBI = 1024


class Dimension(StrEnum):
    """The quantity that a number measures; the value is its SI unit."""

    COUNT = "1"
    BYTES = "B"
    BYTES_PER_S = "B/s"
    FLOPS_PER_S = "FLOPS"
    SECONDS = "s"
    HERTZ = "Hz"
    WATTS = "W"
    USD = "USD"


@dataclass(frozen=True)
class Unit:
    """A unit name as in profiles, and its size in SI units."""

    name: str
    dimension: Dimension
    factor: float


_FACTORS: Mapping[Dimension, Mapping[str, float]] = {
    Dimension.COUNT: {"1": 1.0},
    Dimension.BYTES: {
        "B": 1.0,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": float(_KIBI),
        "MiB": float(_KIBI**2),
        "GiB": float(_KIBI**3),
        "TiB": float(_KIBI**4),
    },
    Dimension.BYTES_PER_S: {
        "B/s": 1.0,
        "MB/s": 1e6,
        "GB/s": 1e9,
        "TB/s": 1e12,
        "MiB/s": float(_KIBI**2),
        "GiB/s": float(_KIBI**3),
        "Gbit/s": 1e9 / 8,
        "Tbit/s": 1e12 / 8,
    },
    # one multiply-accumulate counts as two, for TOPS as for TFLOPS
    Dimension.FLOPS_PER_S: {"FLOPS": 1.0, "GFLOPS": 1e9, "TFLOPS": 1e12, "PFLOPS": 1e15, "TOPS": 1e12},
    Dimension.SECONDS: {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    Dimension.HERTZ: {"Hz": 1.0, "MHz": 1e6, "GHz": 1e9},
    Dimension.WATTS: {"W": 1.0, "kW": 1e3},
    Dimension.USD: {"USD": 1.0, "kUSD": 1e3},
}

UNITS: Mapping[str, Unit] = {
    name: Unit(name, dimension, factor) for dimension, factors in _FACTORS.items() for name, factor in factors.items()
}


def names(dimension: Dimension) -> tuple[str, ...]:
    """The unit names of ``dimension``, smallest prefix first."""
    return tuple(_FACTORS[dimension])


def to_si(value: float, unit: str) -> float:
    """``value`` in the SI unit of its dimension; an unknown unit raises ``KeyError``."""
    return value * UNITS[unit].factor
