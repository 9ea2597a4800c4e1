"""Calls of application functions by name, for the workers of an engine."""

from __future__ import annotations

import pickle

from meshplan import __version__
from meshplan.application import ours


def version() -> str:
    """Version of the package on this machine."""
    return __version__


def called(module: str, function: str, arguments: bytes) -> bytes:
    """Call a function of the application; arguments and result are pickled, since only the application knows their types."""
    found = getattr(ours(module), function)
    return pickle.dumps(found(*pickle.loads(arguments)))  # noqa: S301  # from our own process, over the engine
