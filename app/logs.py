"""Log lines on standard error: for people, or as JSON for machines. No line holds an API key, or a traceback with values."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any

import structlog

from documents.printable import printable

MAX_TEXT = 16_000  # characters of a value; of a traceback, its end counts
_KEY = re.compile(r"\bmp_[A-Za-z0-9_-]+")
_BEARER = re.compile(r"(?i)(authorization\W{1,8}|bearer\s+)[^\s'\",;]+")

Event = MutableMapping[str, Any]


def configure_logs(format: str = "text") -> None:
    """Set up ``text`` or ``json`` logs, also for imported libraries."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _told,
            _clean,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[_Forwarded(logging.WARNING)], level=logging.WARNING, force=True)


def _told(logger: object, method: str, event: Event) -> Event:
    """The exception as text: its lines of code and its message, and no values of variables."""
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else given[1] if isinstance(given, tuple) else sys.exc_info()[1]
    if given and error is not None:
        event["exception"] = "".join(traceback.format_exception(error)).rstrip()[-MAX_TEXT:]
    return event


def _clean(logger: object, method: str, event: Event) -> Event:
    return {name: _cleaned(value) for name, value in event.items()}


def _cleaned(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(_cleaned(name)): _cleaned(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(item) for item in value]
    text = str(value)
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
    return printable(_BEARER.sub(r"\1...", _KEY.sub("mp_...", text)))


class _Forwarded(logging.Handler):
    """Lines of imported libraries, in the form of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None)
