"""Plans how to lay a large-model training job over an Ascend or GPU cluster.

``search``, ``estimate``, ``explain``, ``sweep``, ``check`` and ``goodput`` answer in this process; ``Client`` and ``AsyncClient``
speak to a server. ``docs/python.md`` has all of it.
"""

import importlib
import typing

__version__ = "0.3.0"

_EXPORTED = {
    "AsyncClient": "meshplan.client",
    "Calibration": "meshplan.server_records",
    "Client": "meshplan.client",
    "Drawing": "meshplan.local",
    "Estimate": "meshplan.local",
    "Event": "meshplan.server_records",
    "LocalPlan": "meshplan.local",
    "MeshplanError": "meshplan.errors",
    "Plan": "meshplan.server_records",
    "SearchResult": "meshplan.local",
    "Study": "meshplan.server_records",
    "SweepResult": "meshplan.local",
    "Timeline": "meshplan.local",
    "check": "meshplan.local",
    "estimate": "meshplan.local",
    "explain": "meshplan.local",
    "goodput": "meshplan.local",
    "search": "meshplan.local",
    "sweep": "meshplan.local",
}

if typing.TYPE_CHECKING:
    from meshplan.client import AsyncClient as AsyncClient
    from meshplan.client import Client as Client
    from meshplan.errors import MeshplanError as MeshplanError
    from meshplan.local import Drawing as Drawing
    from meshplan.local import Estimate as Estimate
    from meshplan.local import LocalPlan as LocalPlan
    from meshplan.local import SearchResult as SearchResult
    from meshplan.local import SweepResult as SweepResult
    from meshplan.local import Timeline as Timeline
    from meshplan.local import check as check
    from meshplan.local import estimate as estimate
    from meshplan.local import explain as explain
    from meshplan.local import goodput as goodput
    from meshplan.local import search as search
    from meshplan.local import sweep as sweep
    from meshplan.server_records import Calibration as Calibration
    from meshplan.server_records import Event as Event
    from meshplan.server_records import Plan as Plan
    from meshplan.server_records import Study as Study
else:  # type checkers take every name of a module with __getattr__ as Any

    def __getattr__(name: str) -> typing.Any:
        if name in _EXPORTED:  # import on first use, so that the command starts without an HTTP library
            return getattr(importlib.import_module(_EXPORTED[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted([*_EXPORTED, "__doc__", "__file__", "__name__", "__path__", "__version__"])
