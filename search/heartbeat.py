"""Heartbeats from inside a long computation, for a caller that waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARD: ContextVar[Callable[[], None] | None] = ContextVar("heard", default=None)


@contextmanager
def heartbeats_to(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` at every ``beat`` within the context."""
    before = _HEARD.set(tell)
    try:
        yield
    finally:
        _HEARD.reset(before)


def beat() -> None:
    """Report that some work is done; called for every plan, or about once a second."""
    tell = _HEARD.get()
    if tell is not None:
        tell()
