"""``step_trace_time.csv`` of the Ascend PyTorch and MindSpore profilers: a row a device and step, in us [torch-npu-profiler].

``Computing``, ``Communication(Not Overlapped)`` and ``Free`` fill a step; ``Overlapped`` is communication that compute hides;
``Bubble`` is the time of all receives.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping

from calibration.traces.measured import MeasuredStep, Part, Source, TraceError, chosen, median_step
from documents.errors import show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

MAX_ROWS = 1_000_000
_MAX_TIME_US = 1e12
_FILLING = {"Computing": Part.COMPUTE, "Communication(Not Overlapped)": Part.COMMUNICATION, "Free": Part.FREE}
_OVERLAPPED, _BUBBLE, _STEP, _TYPE = "Overlapped", "Bubble", "Step", "Type"
_RANKS = (
    "Device_id",
    "Index",
)  # columns of one device's table and of a cluster's; rows of type `stage` are maxima over ranks


@dataclass(frozen=True)
class _Row:
    rank: int | None
    step: int | None
    times_us: Mapping[str, float]

    @property
    def step_time_us(self) -> float:
        return sum(self.times_us[name] for name in _FILLING)


def read_step_table(lines: Iterable[str], rank: int | None, step: int | None) -> MeasuredStep:
    """One row: of ``rank``, by default the device that computes longest; of ``step``, by default its median step.

    Raises ``TraceError`` if columns are missing, a value is no time, or there is no such row.
    """
    rows = _rows(lines)
    ranks = tuple(sorted({row.rank for row in rows if row.rank is not None}))
    rank = chosen("rank", rank, ranks)
    busiest = max(rows, key=lambda row: row.times_us["Computing"])
    rows = [row for row in rows if row.rank == (busiest.rank if rank is None else rank)]
    times_s = {row.step: row.step_time_us * 1e-6 for row in rows if row.step is not None}
    wanted = chosen("step", step, times_s)
    if wanted is None and times_s:
        wanted = median_step(times_s)
    row = next(row for row in rows if wanted is None or row.step == wanted)
    if row.step_time_us <= 0.0:
        raise TraceError(Sentence("says that the step took no time; profile one whole step or more."))
    return MeasuredStep(Source.STEP_TABLE, row.rank, row.step, row.step_time_us * 1e-6, *_parts(row.times_us), times_s, ranks)


def _parts(times_us: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    exposed = {str(part): times_us[name] * 1e-6 for name, part in _FILLING.items()}
    waited_s = min(times_us[_BUBBLE] * 1e-6, exposed[Part.COMMUNICATION])  # receives during compute are masked
    exposed[Part.COMMUNICATION] -= waited_s
    exposed[Part.PIPELINE] = waited_s
    return exposed, {Part.COMMUNICATION: times_us[_OVERLAPPED] * 1e-6}


def _rows(lines: Iterable[str]) -> list[_Row]:
    rows: list[_Row] = []
    try:
        reader = csv.reader(lines)
        header = [name.strip().replace("（", "(").replace("）", ")") for name in next(reader, [])]
        missing = [name for name in (*_FILLING, _OVERLAPPED, _BUBBLE) if name not in header]
        if missing:
            raise TraceError(Sentence("no column {}; give a step_trace_time.csv, or a trace in JSON.", joined(", ", missing)))
        for number, cells in enumerate(reader, start=1):
            if number > MAX_ROWS:
                raise TraceError(Sentence("holds more than {:,} rows; cut it to one step.", MAX_ROWS))
            named = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            if not cells or named.get(_TYPE, "rank") != "rank":
                continue
            line = reader.line_num
            times_us = {name: _time_us(named.get(name, ""), line, name) for name in (*_FILLING, _OVERLAPPED, _BUBBLE)}
            rank = next((named[name] for name in _RANKS if name in named), "")
            rows.append(_Row(_number(rank), _number(named.get(_STEP, "")), times_us))
    except csv.Error as error:
        raise TraceError(Sentence("is not CSV: {}.", error)) from None
    if not rows:
        raise TraceError(Sentence("holds no row of a device; profile one whole step or more."))
    return rows


def _number(text: str) -> int | None:
    """The step number; empty if the profiler was not given steps."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _time_us(text: str, line: int, column: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= _MAX_TIME_US:
        raise TraceError(Sentence("line {}, column {}: {} is no time in microseconds.", line, column, show(text)))
    return value
