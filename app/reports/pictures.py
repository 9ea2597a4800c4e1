"""Pictures of a report, as coordinates for its templates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from documents.late_methods import dataclass
from meshplan.drawings import COLOURS

WIDTH = 760.0
LEAST_SHARE = 0.005  # share of the longest bar below which parts are merged
TICKS = 5


@dataclass(frozen=True)
class Piece:
    part: str
    x: float
    width: float
    colour: str


@dataclass(frozen=True)
class Bar:
    label: str
    total: float
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Bars:
    """Stacked bars on one scale; ``parts`` is the legend, the largest first."""

    bars: Sequence[Bar]
    parts: Sequence[tuple[str, str]]
    limit_x: float | None = None


@dataclass(frozen=True)
class Point:
    label: str
    x: float
    y: float
    is_first: bool
    colour: str


@dataclass(frozen=True)
class Points:
    """Points in a box of ``width`` by ``height``, with the values of its ticks."""

    points: Sequence[Point]
    x_ticks: Sequence[tuple[float, float]]
    y_ticks: Sequence[tuple[float, float]]
    limit_x: float | None


def bars(rows: Sequence[tuple[str, Mapping[str, float]]], width: float = WIDTH, limit: float | None = None) -> Bars:
    """A bar for each row; parts that are small in all rows become ``other``."""
    longest = max(max((math.fsum(parts.values()) for _, parts in rows), default=0.0), limit or 0.0) or 1.0
    most: dict[str, float] = {}
    for _, parts in rows:
        for part, value in parts.items():
            most[part] = max(most.get(part, 0.0), value)
    named = sorted((part for part in most if most[part] >= LEAST_SHARE * longest), key=lambda part: -most[part])
    shown = named[: len(COLOURS) - 1]
    colours = {part: COLOURS[index] for index, part in enumerate(shown)} | {"other": "#98a3b5"}
    drawn = []
    for label, parts in rows:
        values = {part: parts.get(part, 0.0) for part in shown}
        values["other"] = math.fsum(value for part, value in parts.items() if part not in values)
        pieces, x = [], 0.0
        for part, value in values.items():
            piece = value / longest * width
            if piece >= 0.01:
                pieces.append(Piece(part, round(x, 2), round(piece, 2), colours[part]))
            x += piece
        drawn.append(Bar(label, math.fsum(parts.values()), pieces))
    used = {piece.part for bar in drawn for piece in bar.pieces}
    legend = [(part, colour) for part, colour in colours.items() if part in used]
    return Bars(drawn, legend, None if limit is None else round(limit / longest * width, 2))


def points(rows: Sequence[tuple[str, float, float]], width: float, height: float, limit: float | None = None) -> Points:
    """Points from rows ``(label, x, y)``; the origin is the lower left corner, the first row is the best."""
    xs, ys = [x for _, x, _ in rows], [y for _, _, y in rows]
    x_ticks, y_ticks = ticks(min(xs), max([*xs, limit or 0.0])), ticks(min(ys), max(ys))
    (x_low, x_high), (y_low, y_high) = (x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1])

    def across(x: float) -> float:
        return round((x - x_low) / (x_high - x_low) * width, 2)

    def down(y: float) -> float:
        return round(height - (y - y_low) / (y_high - y_low) * height, 2)

    return Points(
        [Point(label, across(x), down(y), index == 0, COLOURS[index == 0]) for index, (label, x, y) in enumerate(rows)],
        [(tick, across(tick)) for tick in x_ticks],
        [(tick, down(tick)) for tick in y_ticks],
        None if limit is None else across(limit),
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from below ``low`` to above ``high``, about five."""
    span = (high - low) or abs(high) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(factor * magnitude for factor in (1.0, 2.0, 5.0, 10.0) if span / (factor * magnitude) <= TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(index * step, 12) for index in range(first, max(last, first + 1) + 1)]
