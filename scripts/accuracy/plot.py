"""Predicted against measured step times as an SVG: both axes logarithmic, a band of 10 %, one colour a kind of run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 720, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 20, 60
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
)  # also for colour-blind readers
BAND = 0.10

Points = Sequence[tuple[float, float]]  # measured and predicted seconds


def scatter_svg(title: str, kinds: Mapping[str, Points]) -> str:
    """The plot. Its bytes are deterministic: coordinates are rounded to a tenth of a pixel."""
    times = [t for points in kinds.values() for pair in points for t in pair]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(seconds: float) -> float:
        return round(LEFT + (math.log10(seconds) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(seconds: float) -> float:
        return round(HEIGHT - BOTTOM - (math.log10(seconds) - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    first, last = 10.0**low, 10.0**high
    band = [(first, first * (1 + BAND)), (last / (1 + BAND), last), (last, last), (last, last * (1 - BAND)),
            (first / (1 - BAND), first), (first, first)]  # fmt: skip
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<polygon points="{" ".join(f"{x(a)},{y(b)}" for a, b in band)}" fill="#dddddd"/>',
        f'<line x1="{x(first)}" y1="{y(first)}" x2="{x(last)}" y2="{y(last)}" stroke="#666666"/>',
    ]
    for power in range(low, high + 1):
        at = 10.0**power
        label = f"{at:g} s"
        parts += [
            f'<line x1="{x(at)}" y1="{y(first)}" x2="{x(at)}" y2="{y(last)}" stroke="#eeeeee"/>',
            f'<line x1="{x(first)}" y1="{y(at)}" x2="{x(last)}" y2="{y(at)}" stroke="#eeeeee"/>',
            f'<text x="{x(at)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>',
            f'<text x="{LEFT - 8}" y="{y(at) + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    for row, ((kind, points), colour) in enumerate(zip(kinds.items(), COLOURS, strict=False)):
        parts += [f'<circle cx="{x(a)}" cy="{y(b)}" r="3" fill="{colour}" fill-opacity="0.6"/>' for a, b in points]
        at = TOP + 20 + 20 * row
        parts += [
            f'<circle cx="{WIDTH - RIGHT + 20}" cy="{at - 4}" r="4" fill="{colour}"/>',
            f'<text x="{WIDTH - RIGHT + 30}" y="{at}">{kind} ({len(points)})</text>',
        ]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 15}" text-anchor="middle">measured step time</text>',
        f'<text x="15" y="{middle}" text-anchor="middle" transform="rotate(-90 15 {middle})">'
        "predicted, architecture left out</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
