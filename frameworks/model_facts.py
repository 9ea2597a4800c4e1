"""Model facts as launch arguments: one table from which a framework's writer, reader and messages are derived.

A model is a flat mapping from paths (``hidden_size``, ``moe.top_k``, ``constants.router.score_function``) to values. A framework
can add values that follow from several fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape, SparseAttention
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.release import Argument, Given, Kind, Release, accepts, values_of

Flat = Mapping[str, Any]
Arguments = dict[str, Any]  # a bare argument has the value ()
CONSTANTS = "constants."
SCALING = "constants.rope_scaling."
_PARTS: Mapping[str, type] = {
    "mla": MlaShape,
    "moe": MoeShape,
    "local_attention": LocalAttention,
    "sparse_attention": SparseAttention,
    "constants": ModelConstants,
    "constants.rope_scaling": RopeScaling,
    "constants.router": RouterConstants,
}


@dataclass(frozen=True)
class Fact:
    """Arguments for one fact: ``number`` is the argument with its value, or ``says`` maps values to arguments.

    ``only``: whether the fact applies to a model, as far as the model is known. ``unsaid``: values that need no argument
    (``None``: the model does not state it). ``instead``: the value to write for one that cannot be expressed. ``effective``: the
    only numbers that have an effect, if the framework accepts more. ``label``: the fact's word in sentences. ``because``: why a
    value has no argument. ``asked``: a launch file mentions the fact if the model does not state it. ``priced``: the fact changes
    the cost of a plan. ``constant``: it is a number that leaves the model's layers and parameters as they are. ``named``: words
    for values that do not read well as label and value. ``says`` is read from top to bottom: the first entry whose arguments
    hold, given or by default, wins.
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
    constant: bool = False
    named: Mapping[Any, str] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        """Whether it is a number alone; those of scaled rotary positions are."""
        return self.constant or (self.path.startswith(SCALING) and not self.path.endswith(".kind"))

    @property
    def words(self) -> str:
        """The fact's word in sentences."""
        return self.label or self.path.rpartition(".")[2]

    def arguments(self, value: Any) -> Mapping[str, Any] | None:
        """Arguments for a value, ``None`` without any."""
        if self.number:
            return {self.number: whole(value)}
        return self.says.get(value)

    def sayable(self, release: Release, value: Any) -> bool:
        """Whether a release has arguments for a value, and they take effect."""
        arguments = self.arguments(value)
        if arguments is None or (self.effective and value not in self.effective):
            return False
        return all(
            name in release.arguments and accepts(release.arguments[name], as_words(chosen)) for name, chosen in arguments.items()
        )

    def read(self, release: Release, given: Given) -> Any:
        """The value that arguments give, or ``None``."""
        if self.number:
            return values_of(release, given, self.number)[0] if self.number in release.arguments else None
        return next((value for value, arguments in self.says.items() if _hold(release, given, arguments)), None)


@dataclass(frozen=True)
class ModelTable:
    """The facts of a framework, each after those that its ``only`` reads.

    ``derived`` computes values from several fields of a flat model. ``undone`` computes fields from the flat facts that were
    read.
    """

    facts: tuple[Fact, ...]
    derived: Callable[[Flat], dict[str, Any]]
    undone: Callable[[Flat], dict[str, Any]]

    def with_facts(self, *facts: Fact, without: Iterable[str] = ()) -> ModelTable:
        """The table with some facts replaced by path and some removed; new ones are appended."""
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
        """The model's fields by path, with derived values and the values in ``beside``."""
        known = {**flattened(model), **beside}
        return {**known, **self.derived(known)}

    def arguments(self, release: Release, flat: Flat) -> Arguments:
        """Arguments of every fact for which the release has arguments."""
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
        """Facts that the release cannot express, each with a part of a sentence."""
        found = []
        for fact in self.facts:
            value = flat.get(fact.path)
            if fact.only(flat) and value not in fact.unsaid and not fact.sayable(release, value):
                words = fact.named.get(value) or (fact.words if value is True else Sentence("{} {}", fact.words, whole(value)))
                found.append((fact, Sentence("{} ({})", words, fact.because) if fact.because else words))
        return tuple(found)

    def unstated(self, release: Release, flat: Flat) -> tuple[str, ...]:
        """Constants that the model does not state, with the framework's own values."""
        found = []
        for fact in self.facts:
            if fact.asked and fact.only(flat) and flat.get(fact.path) is None:
                default = fact.read(release, {})
                found.append(fact.words if default is None else Sentence("{} ({})", fact.words, whole(default)))
        return tuple(found)

    def read(self, release: Release, given: Given, known: Mapping[str, Any]) -> ModelShape:
        """The model of given arguments; ``known`` are fields that are not in the table."""
        flat: dict[str, Any] = dict(known)
        for fact in self.facts:
            if fact.only(flat):
                value = fact.read(release, given)
                if value is not None or fact.path not in flat:
                    flat[fact.path] = value
        return built({**flat, **self.undone(flat)})


def flattened(section: Any, lead: str = "") -> dict[str, Any]:
    """Fields by path; a section that is ``None`` has one path."""
    found: dict[str, Any] = {}
    for entry in fields(section):
        value = getattr(section, entry.name)
        path = lead + entry.name
        if is_dataclass(value):
            found |= {path: True, **flattened(value, f"{path}.")}
        else:
            found[path] = value
    return found


def built(flat: Flat) -> ModelShape:
    """The model of a flat mapping; other paths, and values that are ``None``, are ignored."""
    made: ModelShape = _made(ModelShape, "", flat)
    return made


def _made(kind: type, lead: str, flat: Flat) -> Any:
    chosen: dict[str, Any] = {}
    for entry in fields(kind):
        path = lead + entry.name
        if path in _PARTS:
            if flat.get(path):
                chosen[entry.name] = _made(_PARTS[path], f"{path}.", flat)
        elif flat.get(path) is not None:
            chosen[entry.name] = flat[path]
    return kind(**chosen)


def whole(value: Any) -> Any:
    """A float without a fraction as an integer, as arguments have it."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e12 else value


def as_words(value: Any) -> tuple[str, ...]:
    """The value of an argument as shell words."""
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
