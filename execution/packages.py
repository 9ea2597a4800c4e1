"""Packages of kernels that this machine need not have: names with a stand-in, and names that are refused once they are called."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from execution.running import UnknownKernelError

_lenient: list[bool] = []


@contextlib.contextmanager
def decorating() -> Iterator[None]:
    """Names of which nothing is known may be called meanwhile, as decorators that change nothing; for imports alone."""
    _lenient.append(True)
    try:
        yield
    finally:
        _lenient.pop()


class _UnknownKind(type):
    """Classes that can be imported, subclassed and compared, but neither made nor called."""

    def __call__(cls, *values: Any, **keywords: Any) -> Any:
        if not cls.__dict__.get("_unknown"):
            return super().__call__(*values, **keywords)
        if not _lenient:
            raise UnknownKernelError(f"{cls.__module__}.{cls.__name__}")
        decorated = len(values) == 1 and isinstance(values[0], types.FunctionType | type)
        return values[0] if decorated else unknown(cls.__module__, cls.__name__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return unknown(f"{cls.__module__}.{cls.__name__}", name)


def unknown(module: str, name: str) -> Any:
    """The class that stands for a name of which nothing is known."""
    return _UnknownKind(name, (), {"__module__": module, "_unknown": True})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the modules of a table, and none other below the same packages, except below those of ``whole``."""

    def __init__(
        self, modules: Mapping[str, Mapping[str, Any]], absent: Mapping[str, tuple[str, ...]], whole: Collection[str]
    ) -> None:
        self.modules, self.absent, self.whole = modules, absent, frozenset(whole)
        self.roots = {name.partition(".")[0] for name in modules} | self.whole

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            return None
        if fullname not in self.modules and fullname.partition(".")[0] not in self.whole:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = types.ModuleType(spec.name)
        absent = self.absent.get(spec.name, ())

        def attribute(name: str) -> Any:
            if name.startswith("__") or name in absent:
                raise AttributeError(name)
            if f"{spec.name}.{name}" in self.modules:
                return importlib.import_module(f"{spec.name}.{name}")
            made = unknown(spec.name, name)
            setattr(module, name, made)
            return made

        module.__dict__["__getattr__"] = attribute
        return module

    def exec_module(self, module: Any) -> None:
        module.__path__ = []
        for name, value in self.modules.get(module.__name__, {}).items():
            setattr(module, name, value)


def provide(modules: Mapping[str, Mapping[str, Any]], absent: Mapping[str, tuple[str, ...]], whole: Collection[str] = ()) -> None:
    """Make these modules importable, in place of what may be installed, and all modules of the packages of ``whole``."""
    roots = {name.partition(".")[0] for name in modules} | set(whole)
    for name in [each for each in sys.modules if each.partition(".")[0] in roots]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(modules, absent, whole))
