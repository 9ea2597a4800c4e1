"""SI numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, log10

from documents.sentences import Sentence

GIB = 2**30


def seconds(value: float) -> str:
    """A time, in the unit that suits it."""
    if value >= 1 or value == 0:
        return f"{value:,.3f} s" if value < 100 else f"{value:,.1f} s"
    return Sentence("{:.3g} ms", value * 1e3) if value >= 1e-3 else Sentence("{:.3g} us", value * 1e6)


def column_seconds(values: Iterable[float]) -> list[str]:
    """Times for one column, all in the unit that suits the largest."""
    times = list(values)
    if max(times, default=0.0) >= 1:
        return [f"{value:,.3f} s" for value in times]
    return [Sentence("{:,.3f} ms", value * 1e3) for value in times]


def figures(value: float) -> str:
    """A number with three significant figures, as the ends of an interval deserve."""
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - floor(log10(abs(rounded)))) if rounded else 0
    return f"{rounded:,.{min(decimals, 6)}f}"


def span(low_s: float, high_s: float) -> str:
    """An interval of times, in one unit."""
    if high_s >= 1:
        return Sentence("{} to {} s", figures(low_s), figures(high_s))
    return Sentence("{} to {} ms", figures(low_s * 1e3), figures(high_s * 1e3))


def dashed_span(low_s: float, high_s: float) -> str:
    """An interval of times, as short as one line of an answer needs it."""
    size, unit = (1.0, "s") if high_s >= 1 else (1e-3, "ms")
    return f"{figures(low_s / size)}-{figures(high_s / size)} {unit}"


def gibibytes(value: float) -> str:
    """Bytes as GiB."""
    return f"{value / GIB:,.2f} GiB"


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction as per cent."""
    return f"{fraction:.{digits}%}"


def count(value: float) -> str:
    """A count, short: 1.46 M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= size:
            return Sentence("{:.2f} {}", value / size, letter)
    return f"{value:,.0f}"


def short_count(value: float, *ends: float) -> list[str]:
    """A count, and the ends of its interval as one text, with three significant figures in the unit that suits the count."""
    size, letter = next(
        (each for each in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " K")) if abs(value) >= each[0]), (1.0, "")
    )
    told = [f"{figures(value / size)}{letter}"]
    return [*told, f"{'-'.join(figures(end / size) for end in ends)}{letter}"] if ends else told


def days(value: float) -> str:
    """Days, with a decimal below a thousand."""
    return f"{value:,.1f} d" if value < 1000 else f"{value:,.0f} d"
