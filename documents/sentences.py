"""Sentences for readers: English text that keeps its template and values.

A ``Sentence`` is a ``str``, so logs, JSON and comparisons see English. Another language looks up the template and fills its
translation with the same values. Values that are sentences are translated too; all others stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Any, NamedTuple

_PLAIN = (float, int, bool, type(None))  # values without text, which are most of a document
_PACKED = "\x1e"  # between the English text and its parts; no text that a user gives may hold it
_PLACE = re.compile(r"\{(\d+)\}")
_LIST = "\x1d"  # starts the template of a list, and separates its separators


class _Compiled(NamedTuple):
    """A template as in the catalogues, with numbered places, and the format of each value."""

    key: str
    pattern: str  # the same for the operator %
    formats: tuple[tuple[str | None, str] | None, ...]  # conversion and format, or None


class Sentence(str):
    """Text from a template: ``Sentence("{} takes {:.0%} of the step", name, share)``, with unnamed ``str.format`` places."""

    __slots__ = ("template", "values")
    template: str  # template with {0}, {1}, ... for the values; a list names its separators instead: see ``joined``
    values: tuple[str, ...]  # formatted values; each is a Sentence or the same in all languages

    def __new__(cls, template: str, /, *values: object) -> Sentence:
        """Raises ``ValueError`` if the number of places differs from the number of values."""
        compiled = _compiled(template)
        shown = tuple(
            [
                value if how is None and type(value) in (str, Sentence) else _shown(value, how)
                for value, how in zip(values, compiled.formats, strict=True)
            ]
        )
        return _made(compiled.pattern % shown, compiled.key, shown)  # type: ignore[arg-type]

    @classmethod
    def whole(cls, text: str) -> Sentence:
        """A text without values that the catalogues contain: a word of a table, a remark in the data, a message of a library."""
        return text if isinstance(text, Sentence) else _made(text, text, ())

    def __str__(self) -> str:
        """Return the sentence itself, so that ``str(error)`` keeps the parts of its message."""
        return self

    def __reduce__(self) -> tuple[Callable[..., Sentence], tuple[str, str, tuple[str, ...]]]:
        return _made, (plain(self), self.template, self.values)

    def __copy__(self) -> Sentence:
        return self

    def __deepcopy__(self, memo: object) -> Sentence:
        return self

    def __add__(self, other: str) -> Sentence:
        return joined("", (self, other))

    def __radd__(self, other: str) -> Sentence:
        return joined("", (other, self))

    def strip(self, characters: str | None = None, /) -> Sentence:
        """The sentence without these characters around it."""
        return _made(plain(self).strip(characters), self.template, self.values)

    def rstrip(self, characters: str | None = None, /) -> Sentence:
        """The sentence without these characters at its end; its translation then has no full stop either."""
        return self._without_end(lambda text: text.rstrip(characters))

    def removeprefix(self, prefix: str, /) -> Sentence:
        """The sentence without this prefix."""
        return _made(plain(self).removeprefix(prefix), self.template.removeprefix(prefix), self.values)

    def removesuffix(self, suffix: str, /) -> Sentence:
        """The sentence without this suffix, as in ``rstrip``."""
        return self._without_end(lambda text: text.removesuffix(suffix))

    def capitalized(self) -> Sentence:
        """The sentence with a capital first letter; other languages ignore this."""
        return _made(self[:1].upper() + self[1:], self.template, self.values)

    def uncapitalized(self) -> Sentence:
        """The sentence with a small first letter."""
        return _made(self[:1].lower() + self[1:], self.template, self.values)

    def lower(self) -> Sentence:
        """The sentence in lower case."""
        return _made(plain(self).lower(), self.template, self.values)

    def _without_end(self, cut: Callable[[str], str]) -> Sentence:
        text = cut(plain(self))
        if len(text) == len(self):
            return self
        values, template = self.values, cut(self.template)
        if template == self.template and values:  # the cut text is the end of the last value
            last = values[-1]
            values = (*values[:-1], last._without_end(cut) if isinstance(last, Sentence) else cut(last))
        return _made(text, template, values)


def word(name: str) -> Sentence:
    """One of our own names without underscores, for readers."""
    return Sentence.whole(name.replace("_", " "))


def joined(separator: str, items: Iterable[str], last: str | None = None) -> Sentence:
    """A list, as in ``str.join``, with ``last`` before the last of several items: ``joined(", ", names, " or ")``."""
    values = tuple(items)
    last = separator if last is None else last
    text = last.join([each for each in (separator.join(values[:-1]), *values[-1:]) if values[1:] or each])
    return _made(text, f"{_LIST}{separator}{_LIST}{last}", values)


def separators(template: str) -> tuple[str, str] | None:
    """The separators of a list: between items, and before the last. ``None`` for the template of a sentence."""
    if template[:1] != _LIST:
        return None
    separator, _, last = template[1:].partition(_LIST)
    return separator, last


def ending(text: str, mark: str) -> str | None:
    """The English text after the last ``mark`` of the sentence itself, not of a value; ``None`` without one."""
    if not isinstance(text, Sentence):
        _, found, behind = text.rpartition(mark)
        return behind if found else None
    _, found, behind = text.template.rpartition(mark)
    if found and separators(text.template) is None:
        return _PLACE.sub(lambda place: plain(text.values[int(place[1])]), behind)
    last = text.values[-1] if text.values else ""
    return ending(last, mark) if isinstance(last, Sentence) else None


def recognized(text: str, templates: Iterable[str]) -> str:
    """Give parts to a plain text that matches one of the templates; other texts stay unchanged."""
    for template in templates:
        found = _pattern(template).fullmatch(text)
        if found and not isinstance(text, Sentence):
            return Sentence(template, *map(Sentence.whole, found.groups()))
    return text


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(map(re.escape, template.split("{}"))), re.DOTALL)


def numbered(template: str) -> tuple[str, int]:
    """The template with numbered places {0}, {1}, ..., and their number."""
    compiled = _compiled(template)
    return compiled.key, len(compiled.formats)


def plain(text: str) -> str:
    """The English text alone."""
    return str.__str__(text)


def packed(text: str) -> str:
    """The text followed by its parts, for storage and transport as plain text: databases, and JSON for a reader."""
    if not isinstance(text, Sentence):
        return text
    return f"{plain(text)}{_PACKED}{json.dumps(_parts(text), ensure_ascii=False, separators=(',', ':'))}"


def unpacked(text: str) -> str:
    """The sentence of a packed text; any other text is returned unchanged."""
    english, mark, parts = text.partition(_PACKED)
    if not mark:
        return text
    try:
        return _from_parts(english, json.loads(parts))
    except (ValueError, TypeError, LookupError):
        return text


def all_plain(value: Any) -> Any:
    """A document with English texts alone, for writers that know no kind of text but one."""
    return each_text(value, plain)


def all_packed(value: Any) -> Any:
    """A document with each sentence in it packed."""
    return each_text(value, packed)


def may_be_packed(text: str) -> bool:
    """Whether a text, or its JSON, may contain a packed sentence."""
    return _PACKED in text or "\\u001e" in text


def all_unpacked(value: Any) -> Any:
    """Restore each packed sentence in a document."""
    return each_text(value, unpacked)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A document with each text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: each if type(each) in _PLAIN else each_text(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else each_text(each, change) for each in value]
    return value


def _made(text: str, template: str, values: tuple[str, ...]) -> Sentence:
    found = str.__new__(Sentence, text)
    found.template, found.values = template, values
    return found


def _parts(text: Sentence) -> list[Any]:
    """Template and values; a value that is a sentence is a list: its text, and its parts."""
    return [text.template, *([plain(v), *_parts(v)] if isinstance(v, Sentence) else v for v in text.values)]


def _from_parts(text: str, parts: list[Any]) -> Sentence:
    template, *values = parts
    return _made(text, template, tuple(v if isinstance(v, str) else _from_parts(v[0], v[1:]) for v in values))


@cache
def _compiled(template: str) -> _Compiled:
    formats: list[tuple[str | None, str] | None] = []
    key = pattern = ""
    for text, name, given, conversion in Formatter().parse(template):
        key, pattern = key + text, pattern + text.replace("%", "%%")
        if name is not None:
            if name or "{" in (given or ""):
                raise ValueError(f"{template!r} names a value")
            key, pattern = f"{key}{{{len(formats)}}}", f"{pattern}%s"
            formats.append((conversion, given or "") if conversion or given else None)
    return _Compiled(key, pattern, tuple(formats))


def _shown(value: object, how: tuple[str | None, str] | None) -> str:
    conversion, given = how or (None, "")
    if conversion is not None:
        value = repr(value) if conversion == "r" else str(value)
    shown = format(value, given)
    return shown if isinstance(shown, Sentence) else plain(shown)  # an error keeps the parts of its message
