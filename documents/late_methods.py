"""``dataclass`` with methods made when first used. The standard library compiles six for each frozen class at import.

A command imports some 300 such classes and makes objects of few. ``fields``, ``replace`` and ``asdict`` take them as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The decorator of the standard library; the methods of frozen classes without slots are made late."""
        may_be_late = options.get("frozen") and not options.get("slots")

        def decorated(cls: type) -> type:
            is_late = may_be_late and not any(_is_frozen_early(base) for base in cls.__mro__)
            return _with_late_methods(cls, **options) if is_late else dataclasses.dataclass(cls, **options)

        return decorated if cls is None else decorated(cls)


Fields = Sequence["dataclasses.Field[Any]"]
Method = Callable[..., Any]


def _is_frozen_early(cls: Any) -> bool:
    """Whether the class is a frozen one of the standard library, which refuses subclasses that are not frozen by it."""
    return "__dataclass_params__" in vars(cls) and cls.__dataclass_params__.frozen


def _with_late_methods(cls: Any, *, frozen: bool, eq: bool = True, repr: bool = True, kw_only: bool = False) -> type:
    own = dict(cls.__dict__)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard library writes the signature as text
    made: type = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
    fields = dataclasses.fields(cls)
    methods = {"__init__": _late_init(cls, fields), **_refusals(cls, fields)}
    methods |= {**({"__repr__": _repr} if repr else {}), **(_compared(fields) if eq else {})}
    for name, method in methods.items():
        if own.get(name) is None:  # Python gives a class with an ``__eq__`` of its own the ``__hash__`` None
            setattr(cls, name, method)
    return made


def _late_init(cls: Any, fields: Fields) -> Method:
    def init(self: Any, *values: Any, **named: Any) -> None:
        cls.__init__ = _init(cls, fields)
        cls.__init__(self, *values, **named)

    return init


def _init(cls: Any, fields: Fields) -> Method:
    """The compiled ``__init__``; a call takes as long as with that of the standard library."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_MADE": object()}
    taken, keywords, body = ["self"], list[str](), list[str]()
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], default = field.default_factory, "=_MADE"
            value = f"_make_{name}() if {name} is _MADE else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = field.default, f"=_default_{name}"
        if field.init:
            (keywords if field.kw_only else taken).append(name + default)
        if field.init or field.default_factory is not dataclasses.MISSING:
            body.append(f"_set(self, {name!r}, {value})")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    parameters = ", ".join([*taken, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102 names of fields, no text of a user
    made: Method = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


def _refusals(cls: Any, fields: Fields) -> dict[str, Method]:
    names = frozenset(field.name for field in fields)

    def set_value(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_value, "__delattr__": delete}


def _compared(fields: Fields) -> dict[str, Method]:
    names = [field.name for field in fields if field.compare]
    values: Method = attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)

    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed}


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"
