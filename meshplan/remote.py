"""Functions of the application, called where only the package is known: on the workers of an engine."""

from __future__ import annotations

import pickle

from meshplan import __version__
from meshplan.application import ours


def version() -> str:
    """Of the package on this machine."""
    return __version__


def called(module: str, function: str, arguments: bytes) -> bytes:
    """What a function of the application returns; both ways pickled, since only it knows the types."""
    found = getattr(ours(module), function)
    return pickle.dumps(found(*pickle.loads(arguments)))  # noqa: S301  # from our own process, over the engine
