"""What a framework's release takes: its arguments with types, defaults and choices, and what it refuses together.

The tables are written from the frameworks' own argument definitions, never from our writers. What excludes or needs what is said
here once: of plans by the rules that ``frameworks.facts`` derives, of written and of read arguments by ``problems``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from documents.errors import nearest

Value = bool | int | float | str | None
Given = Mapping[str, tuple[str, ...]]  # name without dashes -> values as written; a switch has none

_CONDITION = re.compile(r"(?P<name>[A-Za-z0-9_.-]+?)(?:(?P<sign>!=|=|>)(?P<value>.+))?")
_TOO_LONG = 20_000


class Kind(Enum):
    """The type that an argument's values are read as."""

    SWITCH = "switch"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"


@dataclass(frozen=True)
class Argument:
    """One argument. ``many`` takes several values; ``choices`` are the values it allows, empty for any."""

    name: str
    kind: Kind
    default: Value = None
    choices: tuple[str, ...] = ()
    many: bool = False


@dataclass(frozen=True)
class Exclusion:
    """Conditions that must not hold all at once. A condition is ``name``, ``name=value``, ``name!=value`` or ``name>number``.

    ``rule`` names the rule of legality that says so of plans, where plans have a choice; the first condition is what it is about.
    """

    conditions: tuple[str, ...]
    source: str
    rule: str = ""


@dataclass(frozen=True)
class Requirement:
    """Where every condition of ``when`` holds, one of ``needs`` must hold too; ``rule`` as in ``Exclusion``."""

    when: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    rule: str = ""


Fact = Exclusion | Requirement


@dataclass(frozen=True)
class Release:
    """One release of a framework. ``groups``: title -> arguments, in the order in which launch files write them.

    ``former`` maps names that older releases used to those of this one.
    """

    name: str
    version: str
    commits: Mapping[str, str]
    groups: Mapping[str, tuple[Argument, ...]]
    exclusions: tuple[Exclusion, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """Arguments by name; of two tables that define one, the later holds."""
        return {argument.name: argument for group in self.groups.values() for argument in group}

    @cached_property
    def _titles(self) -> Mapping[str, str]:
        return {a.name: title for title, group in reversed(list(self.groups.items())) for a in group}

    def group_of(self, name: str) -> str | None:
        """Title of the group that lists the argument first."""
        return self._titles.get(name)

    def nearest(self, name: str) -> str | None:
        """The known name that looks most like ``name``."""
        return nearest(name, self.arguments)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What needs and what excludes what."""
        return (*self.requirements, *self.exclusions)


def switches(*names: str) -> tuple[Argument, ...]:
    """Arguments without a value, off unless given."""
    return tuple(Argument(name, Kind.SWITCH, False) for name in names)


def integers(*names: str) -> tuple[Argument, ...]:
    """Whole numbers without a default."""
    return tuple(Argument(name, Kind.INTEGER) for name in names)


def texts(*names: str) -> tuple[Argument, ...]:
    """Texts without a default."""
    return tuple(Argument(name, Kind.TEXT) for name in names)


def integer(name: str, default: int | None, *, many: bool = False) -> Argument:
    """A whole number."""
    return Argument(name, Kind.INTEGER, default, many=many)


def number(name: str, default: float | None) -> Argument:
    """A number."""
    return Argument(name, Kind.NUMBER, default)


def text(name: str, default: str | None = None, *, many: bool = False) -> Argument:
    """A text."""
    return Argument(name, Kind.TEXT, default, many=many)


def choice(name: str, default: str | None, *choices: str, many: bool = False) -> Argument:
    """One of ``choices`` (several with ``many``)."""
    return Argument(name, Kind.TEXT, default, choices, many)


def read_tokens(release: Release, tokens: list[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """What a list of arguments gives, and a sentence for each token that belongs to none or comes twice.

    ``--name=value`` and ``--name value`` are the same. A later value of the same name holds, as in argparse.
    """
    given: dict[str, tuple[str, ...]] = {}
    stray: list[str] = []
    name = None
    for token in tokens:
        if re.match(r"--?[A-Za-z]", token):
            written, equals, value = token.lstrip("-").partition("=")
            name = release.former.get(written, written)
            if name in given:
                stray.append(f"--{written} is given twice.")
            given[name] = (value,) if equals else ()
        elif name is None:
            stray.append(f"{token[:80]!r} belongs to no argument.")
        else:
            given[name] += (token,)
    return given, stray


def accepted(release: Release, given: Given) -> dict[str, tuple[str, ...]]:
    """The arguments that the release knows, with values that it takes."""
    known = release.arguments
    return {name: values for name, values in given.items() if name in known and not _refused(known[name], values)}


def problems(release: Release, given: Given) -> list[str]:
    """One sentence for each argument that the release does not know or whose values it refuses, then for each combination."""
    sentences = []
    for name, values in given.items():
        argument = release.arguments.get(name)
        if argument is None:
            near = release.nearest(name)
            hint = f"; the nearest is {near}" if near else ""
            sentences.append(f"{name} is no argument of {release.name} {release.version}{hint}.")
        else:
            sentences += [f"{name}: {reason}" for reason in _refused(argument, values)]
    if sentences:
        return sentences
    for exclusion in release.exclusions:
        if all(holds(release, given, condition) for condition in exclusion.conditions):
            sentences.append(f"{' and '.join(exclusion.conditions)} exclude each other {exclusion.source}.")
    for rule in release.requirements:
        if all(holds(release, given, condition) for condition in rule.when):
            if not any(holds(release, given, need) for need in rule.needs):
                sentences.append(f"{' and '.join(rule.when)} needs {' or '.join(rule.needs)} {rule.source}.")
    return sentences


def holds(release: Release, given: Given, condition: str) -> bool:
    """Whether a condition holds of the given values, with the release's defaults for what is not given."""
    name, sign, wanted = parts_of(condition)
    values = values_of(release, given, name)
    if not sign:
        return bool(values) and values not in ([False], [None])
    if sign == ">":
        return any(isinstance(value, int | float) and value > float(wanted) for value in values)
    return (wanted in map(str, values)) == (sign == "=")


def parts_of(condition: str) -> tuple[str, str, str]:
    """Name, sign and value of a condition; sign and value are empty where the name stands alone."""
    match = _CONDITION.fullmatch(condition)
    assert match is not None, condition
    return match["name"], match["sign"] or "", match["value"] or ""


def values_of(release: Release, given: Given, name: str) -> list[Value]:
    """Values of an argument as its type reads them: those given, else its default. Raises ``KeyError`` for an unknown name."""
    argument = release.arguments.get(name)
    if argument is None:
        raise KeyError(name)
    argument = release.arguments[name]
    if name not in given:
        return [argument.default]
    if argument.kind is Kind.SWITCH:
        return [not given[name] or given[name][0].lower() == "true"]
    return [_typed(argument.kind, value) for value in given[name]]


def _typed(kind: Kind, value: str) -> Value:
    if kind is Kind.INTEGER:
        return int(value)
    return float(value) if kind is Kind.NUMBER else value


def _refused(argument: Argument, values: tuple[str, ...]) -> list[str]:
    if argument.kind is Kind.SWITCH:
        return [f"takes no value, and has {' '.join(values)}."] if values and values not in (("True",), ("False",)) else []
    if not values:
        return ["needs a value."]
    if len(values) > 1 and not argument.many:
        return [f"takes 1 value, and has {len(values)}: {' '.join(values)[:80]}."]
    reasons = []
    for value in values:
        if not _readable(argument.kind, value):
            reasons.append(f"{value[:80]!r} is no {argument.kind.value}.")
        elif argument.choices and value not in argument.choices:
            reasons.append(f"{value[:80]!r} is not allowed; use one of {', '.join(argument.choices)}.")
    return reasons


def _readable(kind: Kind, value: str) -> bool:
    if kind is Kind.INTEGER:
        return re.fullmatch(r"-?\d{1,12}", value) is not None
    if kind is Kind.NUMBER:
        return re.fullmatch(r"-?(\d{1,30}\.?\d{0,30}|\.\d{1,30})([eE][-+]?\d{1,3})?", value) is not None
    return len(value) <= _TOO_LONG
