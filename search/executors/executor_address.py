"""Executors by address: ``serial``, ``process://N`` or ``dask://HOST:PORT``."""

from __future__ import annotations

import os
import re
import sys
import time

from documents.errors import show
from documents.sentences import Sentence
from search.errors import SearchError
from search.executors.executor import SERIAL, Executor
from search.executors.processes import Processes

MAX_PROCESSES = 256
AFTER_S = 2.0  # seconds of a search before processes start by default: a process costs a third of a second to start
ALLOWED = Sentence("give serial, process://N with N from 1 to {}, or dask://HOST:PORT", MAX_PROCESSES)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def executor_of(address: str | None, field: str = "executor") -> Executor:
    """The executor at an address. Without one, processes on all cores, which start once a search has taken a while.

    ``field`` is the name of the address for messages. Raises ``SearchError`` for a bad address and where nobody answers.
    """
    if address is None:
        begun_s = time.monotonic()
        number = min(cores(), MAX_PROCESSES)
        return SERIAL if number == 1 else Processes(number, begin=lambda: time.monotonic() - begun_s >= AFTER_S)
    if address == "serial":
        return SERIAL
    if found := re.fullmatch(r"process://(\d{1,4})", address):
        if not 1 <= (number := int(found[1])) <= MAX_PROCESSES:
            raise SearchError(Sentence("{}: {} is not allowed; {}.", field, show(address), ALLOWED))
        return Processes(number)
    if found := re.fullmatch(r"dask://([^/\s:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address):
        from search.executors.dask_engine import engine_at  # an extra

        return engine_at(found[1], int(found[2]), field)
    raise SearchError(Sentence("{}: {} is not allowed; {}.", field, show(address), ALLOWED))
