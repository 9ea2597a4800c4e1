"""A site's own log of interruptions."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

from cost_models.delivery.failures import DAY_S, FailureRate, rate_from_log
from documents.bounds import MAX_DEVICES
from documents.errors import InputError, show

LOG_BYTES = 16 * 2**20
MAX_LINES = 100_000
MAX_DAYS = 36_500.0
CONFIDENCE = 0.9
COLUMN = "time"


def read_failure_log(path: Path, num_nodes: int, num_days: float | None) -> FailureRate:
    """The failure rate with its 90 % interval, from a CSV with a column ``time`` (ISO 8601, a line for each interruption)."""
    if not 1 <= num_nodes <= MAX_DEVICES:
        raise InputError(f"--log-nodes: {num_nodes} is not allowed; give an integer from 1 to {MAX_DEVICES:,}.")
    if num_days is not None and not 0 < num_days <= MAX_DAYS:
        raise InputError(f"--log-days: {show(num_days)} is not allowed; give a number above 0 and at most {MAX_DAYS:,.0f}.")
    times = _times(path)
    if len(times) > MAX_LINES:
        raise InputError(f"--failure-log: {path}: {len(times):,} interruptions are more than {MAX_LINES:,}; give a shorter time.")
    if num_days is None:
        if len(times) < 2 or max(times) == min(times):
            raise InputError(f"--failure-log: {path}: its lines do not span any time; give --log-days.")
        num_days = (max(times) - min(times)).total_seconds() / DAY_S
    return rate_from_log(len(times), num_nodes * num_days, CONFIDENCE)


def _times(path: Path) -> list[datetime]:
    if path.stat().st_size > LOG_BYTES:
        raise InputError(f"--failure-log: {path}: more than {LOG_BYTES >> 20} MiB; split it.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = csv.DictReader(lines, strict=True)
            if COLUMN not in (rows.fieldnames or ()):
                raise InputError(f"--failure-log: {path}: line 1 names no column {COLUMN!r}; give a CSV with a header.")
            return [_time(row[COLUMN], path, rows.line_num) for row in rows]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"--failure-log: {path}: not a CSV in UTF-8 ({error}).") from None


def _time(text: str | None, path: Path, line: int) -> datetime:
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        raise InputError(
            f"--failure-log: {path}, line {line}, column {COLUMN}: {show(text)} is no time; give ISO 8601: 2026-03-01T12:30:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
