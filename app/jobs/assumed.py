"""Defaults of a job, for answers: field, value and source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from documents.bounds import MAX_TOKENS, Line, LongLine
from documents.checking import Section, check
from documents.errors import InputError, show, unknown_name
from documents.late_methods import dataclass
from documents.sentences import Sentence, plain, recognized

NOT_GIVEN = Sentence("(not given)")
SEARCHED = Sentence("(left to the search)")
MAX_ASSUMED = 100
Bounds = Field(ge=0, le=MAX_TOKENS)
_WHYS = (  # notes on defaults; a resolved job contains only their text
    Sentence("(not given)"),
    "(default on {} devices)",
    "(default on {})",
    "(default of {} launch files)",
    "from the preset ({}: {})",
)


class AssumedField(Section):
    """A default that a job took; it applies while the job has that value."""

    value: bool | Annotated[int, Bounds] | Annotated[float, Bounds] | Line | None = None
    why: LongLine


AssumedFields = Annotated[dict[Line, AssumedField], Field(max_length=MAX_ASSUMED)]


@dataclass(frozen=True)
class Assumption:
    """A default in force. ``value`` is the value in the resolved job; null if the code decides it."""

    field: str
    value: Any
    why: str

    @property
    def is_silent(self) -> bool:
        """Whether the default is listed only if it affects the answer."""
        return self.why == NOT_GIVEN

    def sentence(self, shown: Any = None) -> str:
        """The sentence; ``shown`` is the meaning of a null."""
        return Sentence("{} = {} {}", self.field, text_of(self.value if self.value is not None else shown), self.why)


def text_of(value: Any) -> str:
    """A value as text."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def field_of(sentence: str) -> str:
    """The field of a sentence in an answer's assumptions."""
    return sentence.partition(" = ")[0]


def joined(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Both lists; if both have a sentence on a field, only the sentence of the first."""
    told = set(map(field_of, first))
    return [*first, *(sentence for sentence in second if field_of(sentence) not in told)]


def assumed_in(given: object, value_of: Callable[[str], Any], allowed: Collection[str]) -> dict[str, Assumption]:
    """Defaults that a resolved job lists, without fields with another value since."""
    if not isinstance(given, Mapping):
        raise InputError(
            Sentence("assumed: {} is not allowed; give a mapping of fields to value and origin, or leave it out.", show(given))
        )
    found = {}
    for name, entry in given.items():
        if name not in allowed:
            raise unknown_name(f"assumed.{show(name)}", str(name), allowed, what=Sentence("field with a default"))
        checked = check(AssumedField, entry, f"assumed.{name}")
        if value_of(name) == checked.value:
            found[name] = Assumption(name, checked.value, recognized(checked.why, _WHYS))
    return found


def assumed_to_mapping(assumed: Mapping[str, Assumption]) -> dict[str, Any]:
    """The defaults in the form of a resolved job; the inverse of ``assumed_in``."""
    return {name: {"value": entry.value, "why": plain(entry.why)} for name, entry in assumed.items()}
