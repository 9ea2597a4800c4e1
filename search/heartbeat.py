"""Signs of life from inside a long answer, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARD: ContextVar[Callable[[], None] | None] = ContextVar("heard", default=None)


@contextmanager
def heard(tell: Callable[[], None]) -> Iterator[None]:
    """Calls ``tell`` at every ``beat`` inside."""
    before = _HEARD.set(tell)
    try:
        yield
    finally:
        _HEARD.reset(before)


def beat() -> None:
    """Something has been done; called once a plan, or as often as takes a second or less."""
    tell = _HEARD.get()
    if tell is not None:
        tell()
