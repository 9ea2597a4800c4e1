"""Pictures of answers as SVG, for notebooks and browsers. Drawing needs no library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

# Colour-blind readers can distinguish them. Reports and the dashboard's light theme have the same; a test compares them.
COLOURS = (
    "#2456d6", "#e07a10", "#0f8a6c", "#c2337e", "#7a52d1", "#9a6b00", "#1490b8",
    "#b3382c", "#5d6b1a", "#606a7b", "#1f5f7a", "#8a5638", "#a63fb3", "#3d8f2c",
)  # fmt: skip
TEXT, GRID, LIMIT = "#1b212c", "#d5dae3", "#c22f2f"
WIDTH, LEFT, TOP, LANE, GAP = 960, 120, 30, 9, 6
MOST_RANKS = 64
GIB = 2.0**30


Drawn = tuple[str, str]  # the title of a picture, and its SVG


def of_timeline(document: Mapping[str, Any]) -> Drawn:
    """Bars of every pipeline rank and stream over a step; bars too narrow to see are merged with their neighbour."""
    tasks, step_s = document["tasks"], float(document["step_time_s"])
    lanes: dict[tuple[int, int], list[int]] = {}
    for index, lane in enumerate(zip(tasks["rank"], tasks["stream"], strict=True)):
        if lane[0] < MOST_RANKS:
            lanes.setdefault(lane, []).append(index)
    kinds = sorted({tasks["kind"][index] for found in lanes.values() for index in found})
    colour = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    body, y, before = [], float(TOP), -1
    for (rank, stream), found in sorted(lanes.items()):
        if rank != before:
            y += GAP if before >= 0 else 0
            body.append(_text(LEFT - 8, y + LANE / 2, f"rank {rank}", "end"))
        before = rank
        said = escape(str(document["streams"][stream]))
        bars = "".join(
            f'<path d="M{x:.1f} {y:.1f}h{width:.1f}v{LANE - 1}h{-width:.1f}z" fill="{colour[kind]}"/>'
            for x, width, kind in _runs(tasks, found, step_s)
        )
        body.append(f"<g><title>rank {rank}: {said}</title>{bars}</g>")
        y += LANE
    axis = _time_axis(step_s, y)
    legend, height = _legend([(str(document["kinds"][kind]), colour[kind]) for kind in kinds], y + 30)
    drawn = f", the first {MOST_RANKS} of them drawn" if document["num_ranks"] > MOST_RANKS else ""
    title = f"A step of {step_s:.4g} s on {document['num_ranks']} pipeline ranks{drawn}"
    return _drawing(title, height, [*axis, *body, *legend])


def of_memory(document: Mapping[str, Any]) -> Drawn:
    """Memory of every pipeline rank over a step."""
    memory, step_s = document["memory"], float(document["step_time_s"])
    most = max((max(held) for held in memory["bytes"]), default=0.0) / GIB or 1.0
    height, body = 300.0, list(_time_axis(step_s, TOP + 300.0))
    ticks = _ticks(most)
    for tick in ticks:
        y = TOP + height - tick / ticks[-1] * height
        body += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="{GRID}"/>', _text(LEFT - 8, y, f"{tick:g} GiB", "end")]
    names = []
    for place, (rank, times, held) in enumerate(zip(memory["rank"], memory["time_s"], memory["bytes"], strict=True)):
        colour = COLOURS[place % len(COLOURS)]
        points = _steps(times, held, step_s, height, ticks[-1])
        body.append(f'<path d="{points}" fill="none" stroke="{colour}" stroke-width="1.3"><title>rank {rank}</title></path>')
        names.append((f"rank {rank}", colour))
    legend, bottom = _legend(names, TOP + height + 30)
    title = f"Memory that {len(names)} pipeline ranks hold over a step of {step_s:.4g} s, at most {most:.1f} GiB"
    return _drawing(title, bottom, [*body, *legend])


def of_parts(numbers: Mapping[str, Any]) -> Drawn:
    """Parts of the step time, the largest first."""
    parts = sorted(((part, value) for part, value in numbers["time_breakdown_s"].items() if value > 0), key=lambda each: -each[1])
    step_s, body, start = float(numbers["step_time_s"]), [], 0.0
    scale = (WIDTH - LEFT - 250) / step_s
    for place, (part, value) in enumerate(parts):
        y = TOP + place * 20
        x, width = LEFT + 60 + start * scale, max(value * scale, 1.0)
        body += [
            _text(LEFT + 52, y + 7, part.replace("_", " "), "end"),
            f'<path d="M{x:.1f} {y}h{width:.1f}v14h{-width:.1f}z" fill="{COLOURS[place % len(COLOURS)]}"/>',
            _text(WIDTH - 10, y + 7, f"{value:.4g} s  {100 * value / step_s:.1f} %", "end"),
        ]
        start += value
    return _drawing(f"Where the {step_s:.4g} s of a step go", TOP + 20.0 * len(parts), body)


def of_plans(rows: Sequence[tuple[str, float, float]], limit_bytes: float | None) -> Drawn:
    """Step time [s] against peak memory [bytes], a named point for each plan; the first plan is the best."""
    height = 340.0
    x_ticks = _ticks(max([*(held for _, _, held in rows), limit_bytes or 0.0], default=1.0) / GIB)
    steps = [step_s for _, step_s, _ in rows] or [0.0, 1.0]
    y_ticks = _ticks(max(steps), min(steps))
    across, down = (WIDTH - LEFT - 20) / x_ticks[-1], height / (y_ticks[-1] - y_ticks[0])
    body = []
    for tick in x_ticks:
        body.append(_text(LEFT + tick * across, TOP + height + 12, f"{tick:g} GiB", "middle"))
    for tick in y_ticks:
        y = TOP + height - (tick - y_ticks[0]) * down
        body += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="{GRID}"/>', _text(LEFT - 8, y, f"{tick:g} s", "end")]
    if limit_bytes is not None:
        x = LEFT + limit_bytes / GIB * across
        body.append(f'<path d="M{x:.1f} {TOP}v{height:.0f}" stroke="{LIMIT}" stroke-dasharray="5 4"><title>limit</title></path>')
    for place, (name, step_s, held) in enumerate(rows):
        radius, colour = (6, COLOURS[1]) if place == 0 else (4, COLOURS[0])
        at = f'cx="{LEFT + held / GIB * across:.1f}" cy="{TOP + height - (step_s - y_ticks[0]) * down:.1f}" r="{radius}"'
        body.append(f'<circle {at} fill="{colour}"><title>{escape(name)}</title></circle>')
    return _drawing(f"Step time against peak memory of {len(rows)} plans", TOP + height + 24, body)


def _runs(tasks: Mapping[str, Sequence[Any]], found: Sequence[int], step_s: float) -> Iterator[tuple[float, float, int]]:
    """Left edge [px], width [px] and kind of each bar of a lane; at most one bar for each pixel."""
    scale = (WIDTH - LEFT - 10) / step_s
    until = -math.inf
    for index in sorted(found, key=lambda each: float(tasks["start_s"][each])):
        left, right = (LEFT + float(tasks[name][index]) * scale for name in ("start_s", "end_s"))
        if right <= until:
            continue
        left = max(left, until)
        until = max(right, left + 1.0)
        yield left, until - left, int(tasks["kind"][index])


def _steps(times: Sequence[float], held: Sequence[float], step_s: float, height: float, most_gib: float) -> str:
    """The path of a step function; the highest value of each pixel."""
    scale = (WIDTH - LEFT - 10) / step_s
    highest: dict[int, float] = {}
    for time, value in zip(times, held, strict=True):
        pixel = round(LEFT + time * scale)
        highest[pixel] = max(highest.get(pixel, 0.0), value)
    level = {pixel: TOP + height - value / GIB / most_gib * height for pixel, value in highest.items()}
    path = "".join(
        f"{'H' if place else 'M'}{pixel}{'V' if place else ' '}{y:.1f}" for place, (pixel, y) in enumerate(level.items())
    )
    return f"{path}H{WIDTH - 10}" if path else ""


def _ticks(most: float, least: float = 0.0) -> list[float]:
    """Round numbers from below ``least`` to above ``most``, about five."""
    span = most - least if most > least else abs(most) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(span / 5))
    step = next(factor * magnitude for factor in (1.0, 2.0, 5.0, 10.0) if span / (factor * magnitude) <= 5)
    first = math.floor(least / step)
    return [round(place * step, 12) for place in range(first, max(math.ceil(most / step), first + 1) + 1)]


def _time_axis(step_s: float, bottom: float) -> Iterator[str]:
    for tick in _ticks(step_s):
        if tick <= step_s:
            x = LEFT + tick / step_s * (WIDTH - LEFT - 10)
            yield f'<path d="M{x:.1f} {TOP - 4}V{bottom:.1f}" stroke="{GRID}"/>' + _text(x, bottom + 12, f"{tick:g} s", "middle")


def _legend(names: Sequence[tuple[str, str]], y: float) -> tuple[list[str], float]:
    """Coloured squares with names in rows of six, and the height of the picture with them."""
    column = (WIDTH - 20) / 6
    parts = []
    for place, (name, colour) in enumerate(names):
        x, top = 10 + place % 6 * column, y + place // 6 * 18
        shown = _text(x + 15, top, name.replace("_", " "), "start")
        parts.append(f'<rect x="{x:.1f}" y="{top - 5:.1f}" width="10" height="10" rx="2" fill="{colour}"/>{shown}')
    return parts, y + math.ceil(len(names) / 6) * 18


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="central" fill="{TEXT}">{escape(words)}</text>'
    )


def _drawing(title: str, height: float, parts: Sequence[str]) -> Drawn:
    size = f'width="{WIDTH}" height="{height + 10:.0f}" viewBox="0 0 {WIDTH} {height + 10:.0f}"'
    look = 'role="img" font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look} aria-label="{escape(title)}">'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    name = f'<text x="10" y="14" font-weight="bold" font-size="13" fill="{TEXT}">{escape(title)}</text>'
    return title, "\n".join([head, ground, name, *parts, "</svg>"])
