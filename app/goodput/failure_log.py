"""A site's own log of interruptions."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

from cost_models.delivery.failures import DAY_S, FailureRate, rate_from_log
from documents.bounds import MAX_DEVICES
from documents.errors import InputError, show
from documents.reading import read_text
from documents.sentences import Sentence

LOG_BYTES = 16 * 2**20
MAX_LINES = 100_000
MAX_DAYS = 36_500.0
CONFIDENCE = 0.9
COLUMN = "time"


def read_failure_log(path: Path, num_nodes: int, num_days: float | None) -> FailureRate:
    """The failure rate with its 90 % interval, from a CSV with a column ``time`` (ISO 8601, a line for each interruption)."""
    if not 1 <= num_nodes <= MAX_DEVICES:
        raise InputError(Sentence("--log-nodes: {} is not allowed; give an integer from 1 to {:,}.", num_nodes, MAX_DEVICES))
    if num_days is not None and not 0 < num_days <= MAX_DAYS:
        raise InputError(
            Sentence("--log-days: {} is not allowed; give a number above 0 and at most {:,.0f}.", show(num_days), MAX_DAYS)
        )
    times = _times(path)
    if len(times) > MAX_LINES:
        raise InputError(
            Sentence(
                "--failure-log: {}: {:,} interruptions are more than {:,}; give a shorter time.", path, len(times), MAX_LINES
            )
        )
    if num_days is None:
        if len(times) < 2 or max(times) == min(times):
            raise InputError(Sentence("--failure-log: {}: its lines do not span any time; give --log-days.", path))
        num_days = (max(times) - min(times)).total_seconds() / DAY_S
    return rate_from_log(len(times), num_nodes * num_days, CONFIDENCE)


def _times(path: Path) -> list[datetime]:
    try:
        text = read_text(path, LOG_BYTES)
    except InputError as error:
        raise InputError(Sentence("--failure-log: {}", error)) from None
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if COLUMN not in (rows.fieldnames or ()):
            raise InputError(Sentence("--failure-log: {}: line 1 names no column {!r}; give a CSV with a header.", path, COLUMN))
        return [_time(row[COLUMN], path, rows.line_num) for row in rows]
    except csv.Error as error:
        raise InputError(Sentence("--failure-log: {}: not a CSV in UTF-8 ({}).", path, error)) from None


def _time(text: str | None, path: Path, line: int) -> datetime:
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        raise InputError(
            Sentence(
                "--failure-log: {}, line {}, column {}: {} is no time; give ISO 8601: 2026-03-01T12:30:00.",
                path,
                line,
                COLUMN,
                show(text),
            )
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
