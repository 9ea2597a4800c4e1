"""Facts of a model as arguments: one table from which a framework's writer, reader and sentences come.

A model is looked at as a flat mapping from paths (``hidden_size``, ``moe.top_k``, ``constants.router.score_function``) to values,
into which a framework may put what several fields decide together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape
from documents.sentences import Sentence
from frameworks.release import Argument, Given, Kind, Release, accepts, values_of

Flat = Mapping[str, Any]
Arguments = dict[str, Any]  # a bare argument has the value ()
CONSTANTS = "constants."
_PARTS: Mapping[str, type] = {
    "mla": MlaShape,
    "moe": MoeShape,
    "local_attention": LocalAttention,
    "constants": ModelConstants,
    "constants.rope_scaling": RopeScaling,
    "constants.router": RouterConstants,
}


@dataclass(frozen=True)
class Fact:
    """What arguments say of one fact: ``number`` is the argument that has its value, or ``says`` maps values to arguments.

    ``only``: whether the fact is one, in a model as far as it is known. ``unsaid``: values that need no argument (None: the
    model does not state it). ``instead``: the value that is written for one that cannot be said. ``effective``: the only numbers
    that the framework heeds, where it takes more. ``label``: the word for it in sentences; ``because``: why a value has no
    argument. ``asked``: a launch file names it where the model does not state it.
    ``priced``: it changes what a plan costs. ``named``: words for values that label and value make no sense of.
    ``says`` is read from top to bottom: the first whose arguments hold, given or by default.
    """

    path: str
    number: str = ""
    says: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    only: Callable[[Flat], bool] = lambda _flat: True
    unsaid: tuple[Any, ...] = (None,)
    instead: Any = None
    effective: tuple[float, ...] = ()
    label: str = ""
    because: str = ""
    asked: bool = False
    priced: bool = False
    named: Mapping[Any, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The word for it in sentences."""
        return self.label or self.path.rpartition(".")[2]

    def arguments(self, value: Any) -> Mapping[str, Any] | None:
        """Arguments that say a value, None without any."""
        if self.number:
            return {self.number: whole(value)}
        return self.says.get(value)

    def sayable(self, release: Release, value: Any) -> bool:
        """Whether a release takes the arguments that say a value, and heeds them."""
        arguments = self.arguments(value)
        if arguments is None or (self.effective and value not in self.effective):
            return False
        return all(
            name in release.arguments and accepts(release.arguments[name], as_words(chosen)) for name, chosen in arguments.items()
        )

    def read(self, release: Release, given: Given) -> Any:
        """The value that arguments say, None for none."""
        if self.number:
            return values_of(release, given, self.number)[0] if self.number in release.arguments else None
        return next((value for value, arguments in self.says.items() if _hold(release, given, arguments)), None)


@dataclass(frozen=True)
class ModelTable:
    """``facts``, each after those that its ``only`` asks for.

    ``derived``: what several fields decide together, of a flat model; ``undone``: fields, from the flat facts that were read.
    """

    facts: tuple[Fact, ...]
    derived: Callable[[Flat], dict[str, Any]]
    undone: Callable[[Flat], dict[str, Any]]

    def with_facts(self, *facts: Fact, without: Iterable[str] = ()) -> ModelTable:
        """The table with facts in place of those of the same path, and without some; new ones come last."""
        new: dict[str, list[Fact]] = {}
        for fact in facts:
            new.setdefault(fact.path, []).append(fact)
        kept: list[Fact] = []
        for fact in self.facts:
            if fact.path in new:
                kept += new.pop(fact.path)
            elif fact.path not in {f.path for f in facts} | set(without):
                kept.append(fact)
        return ModelTable((*kept, *(f for rest in new.values() for f in rest)), self.derived, self.undone)

    def flat(self, model: ModelShape, **beside: Any) -> Flat:
        """The model's fields by path, with what is derived; ``beside``: what is known besides."""
        known = {**flattened(model), **beside}
        return {**known, **self.derived(known)}

    def arguments(self, release: Release, flat: Flat) -> Arguments:
        """Arguments of every fact that the release has arguments for."""
        found: Arguments = {}
        for fact in self.facts:
            value = flat.get(fact.path)
            if not fact.only(flat) or value in fact.unsaid:
                continue
            if not fact.sayable(release, value) and not (fact.effective and fact.number in release.arguments):
                value = fact.instead
            if value is not None:
                found |= fact.arguments(value) or {}
        return found

    def unsayable(self, release: Release, flat: Flat) -> tuple[tuple[Fact, str], ...]:
        """Facts that the release cannot be told, each with a sentence's part that says so."""
        found = []
        for fact in self.facts:
            value = flat.get(fact.path)
            if fact.only(flat) and value not in fact.unsaid and not fact.sayable(release, value):
                shown = "" if value is True else Sentence(" {}", whole(value))
                words = fact.named.get(value, f"{fact.words}{shown}")
                found.append((fact, f"{words}{f' ({fact.because})' if fact.because else ''}"))
        return tuple(found)

    def unstated(self, release: Release, flat: Flat) -> tuple[str, ...]:
        """Constants that the model does not state, with what the framework then takes."""
        found = []
        for fact in self.facts:
            if fact.asked and fact.only(flat) and flat.get(fact.path) is None:
                default = fact.read(release, {})
                found.append(fact.words if default is None else Sentence("{} ({})", fact.words, whole(default)))
        return tuple(found)

    def read(self, release: Release, given: Given, known: Mapping[str, Any]) -> ModelShape:
        """The model that arguments say; ``known``: fields that are not in the table."""
        flat: dict[str, Any] = dict(known)
        for fact in self.facts:
            if fact.only(flat):
                value = fact.read(release, given)
                if value is not None or fact.path not in flat:
                    flat[fact.path] = value
        return built({**flat, **self.undone(flat)})


def flattened(section: Any, lead: str = "") -> dict[str, Any]:
    """Fields by path; a part that is None has its own path alone."""
    found: dict[str, Any] = {}
    for entry in fields(section):
        value = getattr(section, entry.name)
        path = lead + entry.name
        if is_dataclass(value):
            found |= {path: True, **flattened(value, Sentence("{}.", path))}
        else:
            found[path] = value
    return found


def built(flat: Flat) -> ModelShape:
    """The model of a flat mapping; paths that are no fields are left out, and so are values None."""
    made: ModelShape = _made(ModelShape, "", flat)
    return made


def _made(kind: type, lead: str, flat: Flat) -> Any:
    chosen: dict[str, Any] = {}
    for entry in fields(kind):
        path = lead + entry.name
        if path in _PARTS:
            if flat.get(path):
                chosen[entry.name] = _made(_PARTS[path], Sentence("{}.", path), flat)
        elif flat.get(path) is not None:
            chosen[entry.name] = flat[path]
    return kind(**chosen)


def whole(value: Any) -> Any:
    """A number without a fraction that is none, as arguments have it."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e12 else value


def as_words(value: Any) -> tuple[str, ...]:
    """The value of an argument as a shell passes it."""
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def _hold(release: Release, given: Given, arguments: Mapping[str, Any]) -> bool:
    for name, wanted in arguments.items():
        if name not in release.arguments:
            return False
        values = values_of(release, given, name)
        if wanted == ():
            if values != [True]:
                return False
        elif tuple(str(value) for value in values) != as_words(_typed(release.arguments[name], wanted)):
            return False
    return True


def _typed(argument: Argument, value: Any) -> Any:
    return float(value) if argument.kind is Kind.NUMBER else value
