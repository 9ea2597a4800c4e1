"""The meaning of flags in run records, looked up in the closed list of ``known_flags.json``.

An entry names a flag and says one of six things: a switch that it turns on or off, a field of the record that it states (used
if the record's own section is silent), a rule of a reader, why it has no effect on the price, or what is priced instead. A flag
without an entry for its stack is not understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any

from cost_models.shapes.switches import Feature
from documents.late_methods import dataclass
from documents.sentences import Sentence

OFF = frozenset(("false", "off", "0", "none", "no"))
_MAX_FLAGS = 1000
_COMMENT = re.compile(r"\s+\([^()]*\)\s*$")
_SWITCHES = {str(feature.name).lower(): feature for feature in Feature}


class Effect(StrEnum):
    """The effect of a flag on a prediction."""

    READ = "read"
    NO_EFFECT = "no_effect"
    ASSUMED = "assumed"
    NOT_UNDERSTOOD = "not_understood"


@dataclass(frozen=True)
class Flag:
    """A flag as written, its name in the list, its value, and its effect.

    ``meaning`` is a switch, a path in the record or a rule if the flag is read, otherwise the reason why it has no effect, or
    what is priced instead. ``on`` and ``off`` are the switches that it sets; ``field`` is the path that it states, ``stated``
    the value.
    """

    text: str
    name: str
    value: str | None
    effect: Effect
    meaning: str = ""
    on: Feature = Feature(0)
    off: Feature = Feature(0)
    field: str | None = None
    stated: Any = None


@dataclass(frozen=True)
class Told:
    """A flag as written, and its effect in one phrase."""

    flag: str
    meaning: str


@dataclass(frozen=True)
class RecordFlags:
    """Effects of the flags of a record; ``assumed`` also has the switches that the framework has on by default."""

    read: tuple[Told, ...] = ()
    no_effect: tuple[Told, ...] = ()
    assumed: tuple[Told, ...] = ()
    not_understood: tuple[str, ...] = ()


NO_FLAGS = RecordFlags()


def record_flags(flags: Iterable[Flag], features: Feature) -> RecordFlags:
    """The flags of a record by effect, with the ``features`` of its strategy that no flag names."""
    listed = list({flag.text: flag for flag in flags}.values())
    by_effect = {effect: tuple(Told(flag.text, flag.meaning) for flag in listed if flag.effect is effect) for effect in Effect}
    said = Feature(0)
    for flag in listed:
        said |= flag.on | flag.off
    defaults = tuple(
        Told(str(f.name).lower(), Sentence("on, as is usual with the framework")) for f in Feature if f in features & ~said
    )
    return RecordFlags(
        read=by_effect[Effect.READ],
        no_effect=by_effect[Effect.NO_EFFECT],
        assumed=by_effect[Effect.ASSUMED] + defaults,
        not_understood=tuple(told.flag for told in by_effect[Effect.NOT_UNDERSTOOD]),
    )


_TABLE: dict[str, Any] = json.loads(files("calibration.records").joinpath("known_flags.json").read_text(encoding="utf-8"))


def _entries(dialect: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, Any]]:
    return {name: (kind, meaning) for kind, names in dialect.items() for name, meaning in names.items()}


_FEATURES = _entries(_TABLE["features"])
# Entries by stack: its own flags first, then those that it shares with others.
_STACKS = {
    stack: {name: entry for dialect in reversed(dialects) for name, entry in _entries(_TABLE[dialect]).items()}
    for stack, dialects in _TABLE["stacks"].items()
}


def read_flags(texts: Iterable[str], stack: str) -> tuple[Flag, ...]:
    """Each flag as written, looked up in the list of its stack."""
    known = _STACKS.get(stack, {})
    return tuple(_looked_up(text, known) for text in list(texts)[:_MAX_FLAGS])


def read_features(names: Iterable[str]) -> tuple[Flag, ...]:
    """Switches of a record, by our names or the frameworks' names."""
    found = []
    for text in names:
        name = text.lower()
        if name in _SWITCHES:
            found.append(Flag(text, name, None, Effect.READ, name, on=_SWITCHES[name]))
        else:
            kind, meaning = _FEATURES.get(name, ("", ""))
            found.append(_flag(text, name, None, kind, meaning))
    return tuple(found)


def _looked_up(text: str, known: Mapping[str, tuple[str, Any]]) -> Flag:
    """The longest part of a text that is in the list: all of it, the part before ``=``, two words, or one word."""
    plain = _COMMENT.sub("", " ".join(text.split())).lstrip("-")
    before, equals, after = plain.partition("=")
    words = [word.strip(",") for word in plain.split()]
    candidates = [(plain, None), (before, after if equals else None)]
    candidates += [(" ".join(words[:n]), " ".join(words[n:]) or None) for n in (2, 1)]
    for candidate, value in candidates:
        name = candidate.strip().lower().replace("_", "-")
        if name in known:
            return _flag(text, name, value, *known[name])
    return Flag(text, before.strip().lower().replace("_", "-"), after or None, Effect.NOT_UNDERSTOOD)


def _flag(text: str, name: str, value: str | None, kind: str, meaning: Any) -> Flag:
    is_off = value is not None and value.strip().lower() in OFF
    if kind in ("switch", "off_switch", "switch_above_1"):
        if kind == "switch_above_1":
            is_off = not (value or "").strip().isdecimal() or int(str(value)[:9]) < 2
        is_off ^= kind == "off_switch"
        switch = _SWITCHES[meaning]
        said = Sentence("{} off", meaning) if is_off else str(meaning)
        none = Feature(0)
        return Flag(text, name, value, Effect.READ, said, none if is_off else switch, switch if is_off else none)
    if kind == "field":
        path, form, *switches = meaning  # a switch that belongs to the field, for flags that mean both
        on = Feature(0) if is_off or not switches else _SWITCHES[switches[0]]
        return Flag(text, name, value, Effect.READ, path, on=on, field=path, stated=_stated(value, form, is_off=is_off))
    if kind == "rule":
        return Flag(text, name, value, Effect.READ, str(meaning))
    return Flag(text, name, value, Effect(kind or "not_understood"), str(meaning))


def _stated(value: str | None, form: str | Mapping[str, Any], *, is_off: bool) -> Any:
    """The value that a flag states for its field; None if only the record's own section can state it.

    A form is the kind of value, or the stated value of each value of the flag ("" without one).
    """
    if not isinstance(form, str):
        return form.get((value or "").strip().lower())
    if form == "elsewhere":
        return None
    if form == "flag":
        return not is_off
    if form.startswith("="):
        return None if is_off else form[1:]
    text = (value or "").strip()
    if form == "text":
        return text or None
    if form == "words":
        return re.findall(r"[\w-]+", text) or None
    is_number = re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", text)
    return float(text) if is_number else text or None if form == "pattern" else None


def with_stated(row: Mapping[str, object], flags: Iterable[Flag]) -> dict[str, object]:
    """The record with the values of its flags, where its own sections are silent."""
    filled: dict[str, Any] = dict(row)
    for flag in flags:
        if flag.field is None or flag.stated is None:
            continue
        *parents, leaf = flag.field.split(".")
        section = filled
        for parent in parents:
            inner = section.get(parent)
            if inner is None and parent == "recompute":
                inner = {}
            if not isinstance(inner, dict):
                break
            section[parent] = dict(inner)
            section = section[parent]
        else:
            if section.get(leaf) in (None, "unknown", []):
                section[leaf] = flag.stated
    return filled
