"""Unit conversions by hand."""

import pytest

from hardware_profiles.units import UNITS, Dimension, names, to_si

# A large number of each unit, worked by hand; 1 KiB is 1,024 bytes and a byte has 8 bits.
SI = {
    "1": (24, 24),
    "B": (7, 7),
    "KB": (3, 3e3),
    "MB": (3, 3e6),
    "GB": (64, 64e9),
    "TB": (1.5, 1.5e12),
    "KiB": (4, 4_096),
    "MiB": (400, 419_430_400),  # 400 x 1,048,576
    "GiB": (64, 68_719_476_736),
    "TiB": (2, 2_199_023_255_552),
    "B/s": (9, 9),
    "MB/s": (250, 250e6),
    "GB/s": (392, 392e9),
    "TB/s": (1.6, 1.6e12),
    "MiB/s": (3, 3_145_728),
    "GiB/s": (20, 21_474_836_480),
    "Gbit/s": (200, 25e9),
    "Tbit/s": (3.2, 400e9),
    "FLOPS": (5, 5),
    "GFLOPS": (2.5, 2.5e9),
    "TFLOPS": (353.9, 353.9e12),
    "PFLOPS": (1.2, 1.2e15),
    "TOPS": (752, 752e12),
    "s": (3, 3),
    "ms": (12, 0.012),
    "us": (14.77, 14.77e-6),
    "ns": (250, 250e-9),
    "Hz": (50, 50),
    "MHz": (1_800, 1.8e9),
    "GHz": (1.85, 1.85e9),
    "W": (350, 350),
    "kW": (1.46, 1_460),
    "USD": (5, 5),
    "kUSD": (38.8, 38_800),
}


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_is_converted_as_by_hand(unit: str) -> None:
    value, si = SI[unit]
    assert to_si(value, unit) == pytest.approx(si, rel=1e-12)


def test_a_gibibyte_is_not_a_gigabyte() -> None:
    assert to_si(1, "GiB") / to_si(1, "GB") == pytest.approx(1.073741824)


def test_the_si_unit_of_every_dimension_has_factor_one() -> None:
    for dimension in Dimension:
        assert UNITS[str(dimension)].dimension is dimension
        assert UNITS[str(dimension)].factor == 1.0


def test_every_unit_is_listed_under_its_dimension() -> None:
    assert {unit for dimension in Dimension for unit in names(dimension)} == set(UNITS)
