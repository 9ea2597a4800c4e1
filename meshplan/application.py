"""Finds the application: in the private tree of a wheel, or in the checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parent
TREE = _PACKAGE / "_tree" if (_PACKAGE / "_tree").is_dir() else _PACKAGE.parent


class TakenError(ImportError):
    """A foreign package with the name of one of ours is loaded in this process."""


def ours(name: str) -> ModuleType:
    """Import a module of the application; ``TakenError`` if a foreign package of the same name was imported before."""
    top = name.partition(".")[0]
    foreign = sys.modules.get(top)
    if foreign is not None and not _is_ours(foreign):
        raise TakenError(f"{top} is another package in this process, imported from {foreign.__file__}", name=name)
    if sys.path[:1] != [str(TREE)]:
        sys.path.insert(0, str(TREE))  # before a foreign `app` or `search`
    return import_module(name)


def _is_ours(module: ModuleType) -> bool:
    return module.__file__ is not None and Path(module.__file__).resolve().is_relative_to(TREE)
