"""Fast copies of frozen records with some fields changed."""

from __future__ import annotations

from typing import Any, TypeVar

Record = TypeVar("Record")


def varied(record: Record, **changes: Any) -> Record:
    """Copy of a frozen record with ``changes``, several times faster than ``dataclasses.replace``.

    The class must have no ``__post_init__``. Cached properties are not copied. ``replace`` is slow because a frozen record sets
    its fields one by one.
    """
    copy, known = object.__new__(type(record)), vars(record)
    fields: dict[str, Any] = type(record).__dataclass_fields__  # type: ignore[attr-defined]
    vars(copy).update({name: known[name] for name in fields}, **changes)
    return copy
