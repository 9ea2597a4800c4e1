"""Stand-ins for accelerator libraries: classes that can be imported, called, subclassed and compared.

Frameworks import accelerator libraries long before they read an argument. Each name below such a package becomes one class on
first use. Values that a validator reads (versions, devices, dtypes) are set in ``accelerators.py``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or")
UNARY = ("neg", "invert")
ORDER = ("lt", "gt", "le", "ge")
# Megatron reads these from a spec's class; a parameter must not have the others before Megatron sets them.
NEVER_OF_A_CLASS = ("submodules", "params")
NEVER_OF_AN_INSTANCE = ("tensor_model_parallel", "partition_dim", "partition_stride", "is_qkv", "qkv_split_shapes", "expert_tp")
_FULL_NAME = "_full_name_of_stand_in"
_made: dict[str, Any] = {}


def _same(self: Any, *_others: Any) -> Any:
    return self


def _never(_self: Any, _other: Any) -> bool:
    return False


def _neutral(kind: type) -> None:
    """Neutral operators: arithmetic returns the operand, and comparisons are false."""
    for name in BINARY:
        type.__setattr__(kind, f"__{name}__", _same)
        type.__setattr__(kind, f"__r{name}__", _same)
    for name in UNARY:
        type.__setattr__(kind, f"__{name}__", _same)
    for name in ORDER:
        type.__setattr__(kind, f"__{name}__", _never)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_decorated(values: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether the call looks like a decorator's: one function, or one class that is not a stand-in."""
    if len(values) != 1 or keywords:
        return False
    (value,) = values
    if isinstance(value, type):
        return _FULL_NAME not in value.__dict__
    return isinstance(value, types.FunctionType | classmethod | staticmethod | property)


class StandInKind(type(Protocol)):  # type: ignore[misc]  # so that a class can be a module and follow a protocol
    """The metaclass of stand-ins: a missing attribute becomes a stand-in too."""

    def __getattr__(cls, name: str) -> Any:
        if _is_special(name) or name in NEVER_OF_A_CLASS:
            raise AttributeError(name)
        made = stand_in(f"{cls.__dict__.get(_FULL_NAME, cls.__name__)}.{name}")
        type.__setattr__(cls, name, made)
        return made

    def __call__(cls, *values: Any, **keywords: Any) -> Any:
        if _FULL_NAME in cls.__dict__ and _is_decorated(values, keywords):
            return values[0]
        return super().__call__(*values, **keywords)

    def register(cls, *values: Any, **keywords: Any) -> Any:
        """A registry's decorator, with or without arguments."""
        return values[0] if _is_decorated(values, {}) else lambda decorated: decorated

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass)

    def __repr__(cls) -> str:
        return str(cls.__dict__.get(_FULL_NAME, cls.__name__))

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __contains__(cls, _item: Any) -> bool:
        return False

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return True

    def __exit__(cls, *_error: Any) -> Literal[False]:
        return False

    __getitem__ = _same
    __enter__ = _same


class StandIn(metaclass=StandInKind):
    """An instance of a stand-in: attributes come from its class, operators are neutral."""

    def __init__(self, *_values: Any, **_keywords: Any) -> None:
        pass

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        return values[0] if _is_decorated(values, keywords) else StandIn()

    def __getattr__(self, name: str) -> Any:
        if _is_special(name) or name in NEVER_OF_AN_INSTANCE:
            raise AttributeError(name)
        return getattr(type(self), name)

    def __getitem__(self, _item: Any) -> Any:
        return StandIn()

    def __setitem__(self, _item: Any, _value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __exit__(self, *_error: Any) -> Literal[False]:
        return False

    __enter__ = _same


_neutral(StandInKind)
_neutral(StandIn)


def stand_in(full_name: str) -> Any:
    """The stand-in of that name, created once."""
    if full_name not in _made:
        module, _, name = full_name.rpartition(".")
        _made[full_name] = StandInKind(name, (StandIn,), {_FULL_NAME: full_name, "__module__": module})
    return _made[full_name]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import finder that gives stand-ins for some packages and everything below them, and for single modules."""

    def __init__(self, packages: Iterable[str], versions: Mapping[str, str]) -> None:
        self.packages = frozenset(packages)
        self.versions = versions

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not {fullname, fullname.partition(".")[0]} & self.packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = stand_in(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        module.__file__ = f"<stands in for {module.__name__}>"
        if "__version__" not in module.__dict__:
            module.__version__ = self.versions.get(module.__name__, "99.0")


def replace_packages(packages: Iterable[str], versions: Mapping[str, str]) -> None:
    """Make imports of these packages give stand-ins from now on."""
    sys.meta_path.insert(0, Finder(packages, versions))
