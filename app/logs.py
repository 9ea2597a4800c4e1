"""Log lines on standard error: for people, or as JSON for machines."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(format: str = "text") -> None:
    """Set up ``text`` or ``json`` logs, also for imported libraries."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if format == "json" else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    exceptions = [structlog.processors.format_exc_info] if format == "json" else []
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
