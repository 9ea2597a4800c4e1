"""Unit conversions by hand."""

import pytest

from hardware_profiles.units import UNITS, Dimension, names, to_si


@pytest.mark.parametrize(
    ("value", "unit", "si"),
    [
        (64, "GiB", 64 * 1024 * 1024 * 1024),
        (64, "GB", 64e9),
        (400, "MiB", 419_430_400),  # 400 x 1,048,576
        (1.6, "TB/s", 1.6e12),
        (200, "Gbit/s", 25e9),  # 200e9 bits, 8 a byte
        (20, "GiB/s", 21_474_836_480),
        (353.9, "TFLOPS", 353.9e12),
        (752, "TOPS", 752e12),
        (14.77, "us", 14.77e-6),
        (250, "ns", 250e-9),
        (1.85, "GHz", 1.85e9),
        (38.8, "kUSD", 38_800),
        (1.46, "kW", 1_460),
        (24, "1", 24),
    ],
)
def test_conversion(value: float, unit: str, si: float) -> None:
    assert to_si(value, unit) == pytest.approx(si, rel=1e-12)


def test_a_gibibyte_is_not_a_gigabyte() -> None:
    assert to_si(1, "GiB") / to_si(1, "GB") == pytest.approx(1.073741824)


def test_the_si_unit_of_every_dimension_has_factor_one() -> None:
    for dimension in Dimension:
        assert UNITS[str(dimension)].dimension is dimension
        assert UNITS[str(dimension)].factor == 1.0


def test_every_unit_is_listed_under_its_dimension() -> None:
    assert {unit for dimension in Dimension for unit in names(dimension)} == set(UNITS)
