"""The process that calls functions for another one."""

from __future__ import annotations

import gc
import pickle
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

READY = "ready"
RESULT = "result"
ERROR = "error"


def main(handle: int, collect_every: int) -> None:
    """Answer calls that come over a socket, one after the other, until the other end closes it.

    It reports readiness once the modules of a search are imported; until then the other process works alone. It collects garbage
    as often as the other process.
    """
    gc.set_threshold(collect_every)
    with Connection(handle) as connection:
        try:
            import_module("search.exhaustive.chunk_pipeline")
            connection.send(READY)
            while True:
                function, arguments = connection.recv()
                connection.send(_answer(function, arguments))
        except (EOFError, OSError):  # the other process has ended
            return


def _answer(function: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return RESULT, function(*arguments)
    except Exception as error:  # the caller raises it
        return ERROR, _as_it_travels(error)


def _as_it_travels(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
