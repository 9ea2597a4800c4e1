"""Plans how to lay a large-model training job over an Ascend or GPU cluster."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from meshplan.client import Client as Client
    from meshplan.client import MeshplanError as MeshplanError

__version__ = "0.2.0"

_OF_THE_CLIENT = ("Client", "MeshplanError")


def __getattr__(name: str) -> typing.Any:
    if name in _OF_THE_CLIENT:  # on first use, so that the command starts without an HTTP library
        return getattr(importlib.import_module("meshplan.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
