"""The executor of a search, from its options or the environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.settings import PREFIX, load_settings
from search.executors.executor import Executor
from search.executors.executor_address import executor_of


@contextmanager
def opened(address: str | None, field: str = "executor") -> Iterator[Executor]:
    """Open the executor at the address, by default the address in the environment; its processes end with the context."""
    if address is None:
        address, field = load_settings().executor, f"{PREFIX}EXECUTOR"
    executor = executor_of(address, field)
    try:
        yield executor
    finally:
        executor.close()
