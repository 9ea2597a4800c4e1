"""The stages that a start reached, and the values to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class RefusedError(Exception):
    """An objection of this check to a value that the framework computed."""


@dataclass
class Stages:
    """Names of the stages; if one failed, it is the last. ``found``: computed values, ready for JSON."""

    names: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def enter(self, name: str) -> None:
        self.names.append(name)

    def keep(self, name: str, values: dict[str, Any]) -> None:
        """Keep a framework's values as plain ones."""
        self.found[name] = {key: plain(value) for key, value in values.items()}


def plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)
