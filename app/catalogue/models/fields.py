"""Typed and bounded access to a mapping that came from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from documents.errors import InputError, nearest, show

_COMPARED_CHARACTERS = 100


class ModelError(InputError):
    """A model name, mapping or file that cannot be used: one sentence with field, value and what is allowed."""


def shown(value: object) -> str:
    """``value`` on one short line, whatever it is."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    return show(value)


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """The nearest of ``names``; of a long ``name`` only the start is compared, because the time grows with its square."""
    return nearest(name[:_COMPARED_CHARACTERS], names)


class Fields:
    """The fields of one mapping. ``where`` names it in messages; null counts as absent where a default is given."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            raise ModelError(f"{where}: {shown(values)} is not a mapping of field names to values")
        for key in values:
            if not isinstance(key, str):
                raise ModelError(f"{where}: the field name {shown(key)} is not text")
        self._values: Mapping[str, object] = values
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def has_key(self, name: str) -> bool:
        """Whether the field is there at all, null included."""
        return name in self._values

    def raw(self, name: str) -> object:
        """The value as it came, None where absent."""
        return self._values.get(name)

    def error(self, name: str, reason: str) -> ModelError:
        """The sentence for a bad field, its value included where it has one."""
        value = f" is {shown(self._values[name])}," if name in self._values else ":"
        return ModelError(f"{self.where}: {name}{value} {reason}")

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Raises for the first field that is not ``known``."""
        for name in self._values:
            if name not in known:
                similar = similar_name(name, known)
                hint = f"did you mean {similar}?" if similar else f"known fields: {', '.join(known)}"
                raise ModelError(f"{self.where}: {shown(name)} is not a known field; {hint}")

    def integer(self, name: str, low: int, high: int) -> int:
        """A required integer in [low, high]."""
        value = self._values.get(name)
        allowed = f"an integer from {low} to {high} is needed"
        if value is None and name not in self._values:
            raise ModelError(f"{self.where}: the field {name} is missing; {allowed}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, allowed)
        return value

    def integer_or(self, name: str, default: int, low: int, high: int) -> int:
        """An integer in [low, high], ``default`` where absent or null."""
        return self.integer(name, low, high) if name in self else default

    def boolean_or(self, name: str, default: bool) -> bool:
        """A boolean, ``default`` where absent or null."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "true or false is needed")
        return value

    def number_or_none(self, name: str, low: float, high: float) -> float | None:
        """A finite number in [low, high], None where absent or null."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.error(name, f"a number from {low:g} to {high:g} is needed")
        return float(value)

    def number(self, name: str, low: float, high: float) -> float:
        """A required finite number in [low, high]."""
        value = self.number_or_none(name, low, high)
        if value is None:
            raise ModelError(f"{self.where}: the field {name} is missing; a number from {low:g} to {high:g} is needed")
        return value

    def text_or(self, name: str, default: str, max_length: int = 200) -> str:
        """One line of text, ``default`` where absent or null."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, str) or not 0 < len(value) <= max_length or not value.isprintable():
            raise self.error(name, f"one line of 1 to {max_length} characters is needed")
        return value

    def text(self, name: str, max_length: int = 200) -> str:
        """One required line of text."""
        if name not in self:
            raise ModelError(f"{self.where}: the field {name} is missing; one line of text is needed")
        return self.text_or(name, "", max_length)

    def child(self, name: str) -> Fields:
        """The mapping under a required field."""
        if name not in self:
            raise ModelError(f"{self.where}: the field {name} is missing; a mapping is needed")
        return Fields(self._values[name], f"{self.where}.{name}")
