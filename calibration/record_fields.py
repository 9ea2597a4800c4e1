"""Reading one value of a run record: bounds are checked, what is missing takes a default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MAX_COUNT = 10**9
_SHOWN_CHARACTERS = 60


class RecordError(ValueError):
    """A run record that cannot be predicted; the message is one sentence that names the field."""


@dataclass(frozen=True)
class Section:
    """One JSON object of a record, for instance ``strategy``, and the record's list of warnings.

    Getters return the default where the key is absent or null and raise ``RecordError`` where the value is not
    what the field holds. Without a default the field is required.
    """

    name: str
    values: Mapping[str, object]
    warnings: list[str]

    def warn(self, field: str, value: object, meaning: str) -> None:
        """Note how a value was read that is not one of the schema's own."""
        self.warnings.append(f"{self.name}.{field}: {shown(value)} {meaning}.")

    def path(self, field: str) -> str:
        """The field's name from the top of the record."""
        return f"{self.name}.{field}" if self.name else field

    def error(self, field: str, allowed: str) -> RecordError:
        """The refusal of a field's value."""
        value = self.values.get(field)
        found = "missing" if value is None else shown(value)
        return RecordError(f"{self.path(field)} is {found}; {allowed} is needed.")

    def integer_or_none(self, field: str, low: int = 1, high: int = MAX_COUNT) -> int | None:
        """A whole number within ``[low, high]``; 8.0 counts as 8."""
        value = self.values.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value != int(value):
            raise self.error(field, f"a whole number from {low} to {high}")
        if not low <= value <= high:
            raise self.error(field, f"a whole number from {low} to {high}")
        return int(value)

    def integer(self, field: str, default: int | None = None, low: int = 1, high: int = MAX_COUNT) -> int:
        """As ``integer_or_none``, with a default or required."""
        value = self.integer_or_none(field, low, high)
        if value is not None:
            return value
        if default is None:
            raise self.error(field, f"a whole number from {low} to {high}")
        return default

    def number_or_none(self, field: str, low: float = 0.0, high: float = 1e18) -> float | None:
        """A finite number above ``low`` and up to ``high``."""
        value = self.values.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value <= high:
            raise self.error(field, f"a number above {low:g} and up to {high:g}")
        return float(value)

    def flag_or_none(self, field: str) -> bool | None:
        """true, false or null."""
        value = self.values.get(field)
        if value is None or isinstance(value, bool):
            return value
        raise self.error(field, "true or false")

    def flag(self, field: str, default: bool = False) -> bool:
        """true or false."""
        value = self.flag_or_none(field)
        return default if value is None else value

    def text_or_none(self, field: str) -> str | None:
        """A string, shortened to a sane length."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(field, "text")
        return value[:1000]

    def texts(self, field: str) -> tuple[str, ...]:
        """The strings of a list, others left out; a single string is a list of one."""
        value = self.values.get(field)
        if isinstance(value, str):
            return (value[:1000],)
        if not isinstance(value, list):
            return ()
        return tuple(item[:1000] for item in value[:1000] if isinstance(item, str))

    def section_or_none(self, field: str) -> Section | None:
        """A nested object."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(field, "an object")
        return Section(self.path(field), value, self.warnings)

    def section(self, field: str) -> Section:
        """A nested object; absent is empty."""
        found = self.section_or_none(field)
        return Section(self.path(field), {}, self.warnings) if found is None else found


def shown(value: object) -> str:
    """A value as a sentence quotes it: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
