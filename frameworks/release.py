"""A framework release: its arguments with types, defaults and choices, and the combinations that it rejects.

A release is a data file, written from the framework's own argument definitions, never from our writers. Exclusions and
requirements are stated there once. ``frameworks.facts`` derives rules of plans from them, and ``problems`` checks arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from documents.checking import Section, check
from documents.errors import InputError, nearest, show, unknown_name
from documents.late_methods import dataclass
from documents.reading import read_document
from documents.sentences import Sentence, joined

Value = bool | int | float | str | None
Effect = Literal["model", "weights", "task", "memory", "time", "cost"]  # what an argument changes; "cost": time and memory
Given = Mapping[str, tuple[str, ...]]  # name without dashes -> values as written; a switch has none

_CONDITION = re.compile(r"(?P<name>[A-Za-z0-9_.-]+?)(?:(?P<sign>!=|=|>)(?P<value>.+)|(?P<stated>\?))?")
STATED = "?"  # behind a name: the script gives the argument
_TOO_LONG = 20_000


class Kind(Enum):
    """The type of an argument's values."""

    SWITCH = "switch"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"


@dataclass(frozen=True)
class Argument:
    """One argument. ``many`` takes several values; ``choices`` are the allowed values, empty for any."""

    name: str
    kind: Kind
    default: Value = None
    choices: tuple[str, ...] = ()
    many: bool = False


@dataclass(frozen=True)
class Exclusion:
    """Conditions that must not all hold. A condition is ``name``, ``name=value``, ``name!=value`` or ``name>number``.

    ``rule`` names the legality rule of plans for it, if plans have a choice. The first condition is its subject. ``silent``: the
    framework starts all the same, and one of them has no effect.
    """

    conditions: tuple[str, ...]
    source: str
    rule: str = ""
    silent: bool = False


@dataclass(frozen=True)
class Requirement:
    """If every condition of ``when`` holds, one of ``needs`` must hold too; ``rule`` and ``silent`` as in ``Exclusion``."""

    when: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    rule: str = ""
    silent: bool = False


Fact = Exclusion | Requirement


@dataclass(frozen=True)
class Release:
    """One release of a framework. ``groups``: title -> arguments, in the order of launch files.

    ``former`` maps argument names of older releases to names of this one. ``models`` are the models that it trains, and
    ``elsewhere`` the frameworks that train others, by Hugging Face's model type, for frameworks with a class for each.
    ``unpriced``: conditions on arguments that are not priced, and what they change. They may name arguments outside of
    ``groups``; ``without_effect`` are further ones there, on which neither model, memory nor time depends.
    """

    name: str
    version: str
    commits: Mapping[str, str]
    groups: Mapping[str, tuple[Argument, ...]]
    exclusions: tuple[Exclusion, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    unpriced: Mapping[str, Effect] = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset()

    @cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """Arguments by name; if two tables define one, the later one wins."""
        return {argument.name: argument for group in self.groups.values() for argument in group}

    @cached_property
    def _titles(self) -> Mapping[str, str]:
        return {a.name: title for title, group in reversed(list(self.groups.items())) for a in group}

    def group_of(self, name: str) -> str | None:
        """Title of the first group with the argument."""
        return self._titles.get(name)

    @cached_property
    def unpriced_by_name(self) -> Mapping[str, Mapping[str, Effect]]:
        """The conditions of ``unpriced`` by the name of their argument."""
        found: dict[str, dict[str, Effect]] = {}
        for condition, effect in self.unpriced.items():
            found.setdefault(parts_of(condition)[0], {})[condition] = effect
        return found

    def knows(self, name: str) -> bool:
        """Whether the release has an argument, read or not."""
        return name in self.arguments or name in self.without_effect or name in self.unpriced_by_name

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """All requirements and exclusions."""
        return (*self.requirements, *self.exclusions)


class _ArgumentsSection(Section, defer_build=True):
    """Arguments of one kind, as a list or with their defaults; or those of a ``group`` of the base.

    ``section``: what all names begin with, and a point. ``choices`` and ``many`` hold for all.
    """

    group: str | None = None
    section: str | None = None
    switch: list[str] | dict[str, bool] | None = None
    integer: list[str] | dict[str, int] | None = None
    number: list[str] | dict[str, float] | None = None
    text: list[str] | dict[str, str] | None = None
    choices: list[str] | None = None
    many: bool = False

    def by_kind(self) -> dict[Kind, list[str] | dict[str, Any]]:
        """The given arguments of each kind."""
        return {kind: given for kind in Kind if (given := getattr(self, kind.value)) is not None}

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if len(self.by_kind()) + (self.group is not None) != 1:
            raise ValueError(Sentence("give one of group, {}.", joined(", ", (kind.value for kind in Kind))))
        return self

    def arguments(self) -> Iterator[Argument]:
        """The arguments; a switch is off by default."""
        lead = Sentence("{}.", self.section) if self.section else ""
        for kind, given in self.by_kind().items():
            defaults = given if isinstance(given, dict) else dict.fromkeys(given, False if kind is Kind.SWITCH else None)
            for name, default in defaults.items():
                yield Argument(lead + name, kind, default, tuple(self.choices or ()), self.many)


class _GroupSection(Section, defer_build=True):
    title: str
    arguments: list[_ArgumentsSection]


def _condition(text: str) -> str:
    if not _CONDITION.fullmatch(text):
        raise ValueError(Sentence("{} is no condition; give name, name=value, name!=value, name>number or name?.", show(text)))
    return text


Conditions = Annotated[list[Annotated[str, AfterValidator(_condition)]], Field(min_length=1)]


class _ExclusionSection(Section, defer_build=True):
    conditions: Conditions
    source: str
    rule: str = ""
    silent: bool = False


class _RequirementSection(Section, defer_build=True):
    when: Conditions
    needs: Conditions
    source: str
    rule: str = ""
    silent: bool = False


class _ReleaseSection(Section):
    """A release's file. It adds to what another, ``base``, says, less facts of ``bypassed`` conditions and what is ``gone``."""

    about: list[str]  # for who reads the file
    name: str
    version: str
    commits: dict[str, str]
    base: str | None = None
    bypassed: list[Conditions] | None = None
    former: dict[str, str] | None = None
    models: dict[str, dict[str, Any]] | None = None
    elsewhere: dict[str, str] | None = None
    gone: list[str] | None = None
    unpriced: dict[Effect, Conditions] | None = None
    without_effect: list[str] | None = None
    groups: list[_GroupSection]
    exclusions: list[_ExclusionSection]
    requirements: list[_RequirementSection]


@cache
def read_release(path: Path) -> Release:
    """The release in a file, cached. Raises ``InputError``, which names file and field.

    The format is JSON because rules are built from it at start-up: the three files take 3 ms to parse and check, 25 ms as YAML.
    """
    try:
        section = check(_ReleaseSection, read_document(path))
    except InputError as error:
        raise InputError(Sentence("{}: {}", path.name, error)) from None
    base = read_release((path.parent / section.base).resolve()) if section.base else None
    bypassed = {tuple(conditions) for conditions in section.bypassed or ()}

    inherited = base.groups if base else {}

    gone = frozenset(section.gone or ())

    def arguments(row: _ArgumentsSection) -> Iterable[Argument]:
        if row.group is not None and row.group not in inherited:
            raise unknown_name(Sentence("{}: group", path.name), row.group, inherited, what=Sentence("group of the base"))
        return row.arguments() if row.group is None else (a for a in inherited[row.group] if a.name not in gone)

    return Release(
        section.name,
        section.version,
        section.commits,
        {group.title: tuple(chain(*map(arguments, group.arguments))) for group in section.groups},
        (
            *(fact for fact in (base.exclusions if base else ()) if fact.conditions not in bypassed),
            *(Exclusion(tuple(fact.conditions), fact.source, fact.rule, fact.silent) for fact in section.exclusions),
        ),
        (
            *(fact for fact in (base.requirements if base else ()) if fact.when not in bypassed),
            *(
                Requirement(tuple(fact.when), tuple(fact.needs), fact.source, fact.rule, fact.silent)
                for fact in section.requirements
            ),
        ),
        section.former or {},
        section.models or {},
        section.elsewhere or {},
        {
            **{c: effect for c, effect in (base.unpriced if base else {}).items() if parts_of(c)[0] not in gone},
            **{c: effect for effect, conditions in (section.unpriced or {}).items() for c in conditions},
        },
        (base.without_effect if base else frozenset()).union(section.without_effect or ()),
    )


def read_tokens(release: Release, tokens: list[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The values in a list of arguments, and a sentence for each token without an argument and for each repeated argument.

    ``--name=value`` and ``--name value`` are equal. A later value of the same name wins, as in argparse.
    """
    given: dict[str, tuple[str, ...]] = {}
    stray: list[str] = []
    name = None
    for token in tokens:
        if re.match(r"--?[A-Za-z]", token):
            written, equals, value = token.lstrip("-").partition("=")
            name = release.former.get(written, written)
            if name in given:
                stray.append(Sentence("--{} is given twice.", written))
            given[name] = (value,) if equals else ()
        elif name is None:
            stray.append(Sentence("{!r} belongs to no argument.", token[:80]))
        else:
            given[name] += (token,)
    return given, stray


def accepted(release: Release, given: Given) -> dict[str, tuple[str, ...]]:
    """The arguments that the release knows, with values that it accepts."""
    known = release.arguments
    return {name: values for name, values in given.items() if name in known and not refused(known[name], values)}


def accepts(argument: Argument, values: tuple[str, ...]) -> bool:
    """Whether an argument accepts the values as written; a bare one has none."""
    return not refused(argument, values)


def problems(release: Release, given: Given) -> list[str]:
    """One sentence for each unknown argument or rejected value, then for each rejected combination."""
    sentences: list[str] = []
    for name, values in given.items():
        argument = release.arguments.get(name)
        if argument is None:
            near = nearest(name, release.arguments)
            hint = Sentence("; the nearest is {}", near) if near else ""
            sentences.append(Sentence("{} is no argument of {} {}{}.", name, release.name, release.version, hint))
        else:
            sentences += [Sentence("{}: {}", name, reason) for reason in refused(argument, values)]
    return sentences or [told(fact) for fact in broken_facts(release, given)]


def broken_facts(release: Release, given: Given) -> list[Fact]:
    """Facts that arguments break, exclusions first; all of them are known to the release, with values that it accepts."""
    broken: list[Fact] = [
        exclusion
        for exclusion in release.exclusions
        if all(holds(release, given, condition) for condition in exclusion.conditions)
    ]
    for rule in release.requirements:
        if all(holds(release, given, condition) for condition in rule.when):
            if not any(holds(release, given, need) for need in rule.needs):
                broken.append(rule)
    return broken


def refused_at_start(release: Release, given: Given) -> list[str]:
    """A sentence for each combination that the framework refuses before it trains, other than those that rules of plans name."""
    broken = broken_facts(release, accepted(release, given))
    return [told(fact) for fact in broken if not (fact.silent or fact.rule)]


def arguments_of(fact: Fact) -> tuple[str, ...]:
    """Arguments that a fact is about, each once."""
    conditions = fact.conditions if isinstance(fact, Exclusion) else (*fact.when, *fact.needs)
    return tuple(dict.fromkeys(parts_of(condition)[0] for condition in conditions))


def told(fact: Fact) -> str:
    """A sentence on arguments that break a fact."""
    if isinstance(fact, Exclusion):
        return Sentence("{} exclude each other {}.", joined(" and ", fact.conditions), fact.source)
    needs = joined(" or ", (need.removesuffix(STATED) for need in fact.needs))
    return Sentence("{} needs {} {}.", joined(" and ", fact.when), needs, fact.source)


def holds(release: Release, given: Given, condition: str) -> bool:
    """Whether a condition holds for the given values, with the release's defaults for the others."""
    name, sign, wanted = parts_of(condition)
    if sign == STATED:
        return name in given
    if name in given and not all(_readable(release.arguments[name].kind, value) for value in given[name]):
        return False  # a number that only the shell knows
    values = values_of(release, given, name)
    if not sign:
        return bool(values) and values not in ([False], [None])
    if sign == ">":
        return any(isinstance(value, int | float) and value > float(wanted) for value in values)
    return (wanted in map(str, values)) == (sign == "=")


def parts_of(condition: str) -> tuple[str, str, str]:
    """Name, sign and value of a condition; sign and value are empty for a bare name, which a default may be."""
    match = _CONDITION.fullmatch(condition)
    assert match is not None, condition
    return match["name"], match["sign"] or match["stated"] or "", match["value"] or ""


def values_of(release: Release, given: Given, name: str) -> list[Value]:
    """Values of an argument, parsed by its type: the given ones, else its default. Raises ``KeyError`` for an unknown name."""
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


def no_numbers(release: Release, given: Given) -> list[tuple[str, str]]:
    """Names and values of arguments that take a number and have none."""
    kinds = {name: release.arguments[name].kind for name in given if name in release.arguments}
    return [
        (name, value)
        for name, kind in kinds.items()
        if kind in (Kind.INTEGER, Kind.NUMBER)
        for value in given[name]
        if not _readable(kind, value)
    ]


def refused(argument: Argument, values: tuple[str, ...]) -> list[str]:
    """A sentence for each value that an argument does not accept."""
    if argument.kind is Kind.SWITCH:
        return (
            [Sentence("takes no value, in a file true or false, and has {}.", joined(" ", values))]
            if values and values not in (("True",), ("False",))
            else []
        )
    if not values:
        return [Sentence("needs a value.")]
    if len(values) > 1 and not argument.many:
        return [Sentence("takes 1 value, and has {}: {}.", len(values), " ".join(values)[:80])]
    reasons: list[str] = []
    for value in values:
        if not _readable(argument.kind, value):
            reasons.append(Sentence("{!r} is no {}.", value[:80], argument.kind.value))
        elif argument.choices and value not in argument.choices:
            reasons.append(Sentence("{!r} is not allowed; use one of {}.", value[:80], joined(", ", argument.choices)))
    return reasons


def _readable(kind: Kind, value: str) -> bool:
    if kind is Kind.INTEGER:
        return re.fullmatch(r"-?\d{1,12}", value) is not None
    if kind is Kind.NUMBER:
        return re.fullmatch(r"-?(\d{1,30}\.?\d{0,30}|\.\d{1,30})([eE][-+]?\d{1,3})?", value) is not None
    return len(value) <= _TOO_LONG
