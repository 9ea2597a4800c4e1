"""Plans how to lay a large-model training job over an Ascend or GPU cluster."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from meshplan.client import AsyncClient as AsyncClient
    from meshplan.client import Client as Client
    from meshplan.errors import MeshplanError as MeshplanError
    from meshplan.local import estimate as estimate
    from meshplan.local import explain as explain
    from meshplan.local import search as search

__version__ = "0.2.0"

_EXPORTED = {
    "AsyncClient": "meshplan.client",
    "Client": "meshplan.client",
    "MeshplanError": "meshplan.errors",
    "estimate": "meshplan.local",
    "explain": "meshplan.local",
    "search": "meshplan.local",
}


def __getattr__(name: str) -> typing.Any:
    if name in _EXPORTED:  # on first use, so that the command starts without an HTTP library
        return getattr(importlib.import_module(_EXPORTED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
