"""A recipe of a post-training framework, read back as the parts of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.release import Release, Value, broken_facts, refused, told, values_of
from frameworks.unread import CHANGES, Unread, matters, unread

NULL = "null"
_SWITCHES = {"true": "True", "false": "False"}
_SECTION = ".*"


class Written(NamedTuple):
    """A setting as a recipe has it. ``unknown``: why its value is not known."""

    text: str
    line: int | None
    unknown: str = ""


Settings = Mapping[str, Written]


class Refusal(NamedTuple):
    """A setting that is not understood: its name, and a part of a sentence with its line and what it changes."""

    name: str
    where: str


class NamedModel(NamedTuple):
    """A setting with the path of a model."""

    setting: str
    path: str


@dataclass(frozen=True)
class ReadRecipe:
    """The parts of a job that a recipe states, by the names of the job's fields.

    ``models``: the policy first, then others, which have to be of the policy's shape. ``fully_sharded``: PyTorch's FSDP trains.
    ``filters``: groups are filtered, and the recipe does not say how many are kept. ``unread``: settings on which the price
    depends and that are not understood. ``assumed``: a sentence for each part that is priced in another form. ``on_npus``: the
    recipe names its devices as Ascend's (True), or does not say. ``end_layers``: of the first and the last pipeline stage.
    ``shape``: of the policy, if the recipe states it.
    """

    release: Release
    models: tuple[NamedModel, ...]
    num_devices: int | None
    devices_per_node: int | None
    post_training: Mapping[str, Any]
    strategy: Mapping[str, Any]
    rollout: Mapping[str, Any]
    unread: tuple[Refusal, ...]
    assumed: tuple[str, ...] = ()
    fully_sharded: bool = False
    filters: bool = False
    on_npus: bool = False
    end_layers: tuple[int | None, int | None] = (None, None)
    shape: ModelShape | None = None


@dataclass
class SettingsReader:
    """Reads settings by name and notes which were asked for; the others decide nothing, or have no price.

    ``otherwise``: the beginnings of names that are priced in another form, each with a sentence.
    """

    release: Release
    settings: Settings
    otherwise: Mapping[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    found: list[Unread] = field(default_factory=list)
    assumed: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {name: one for name, one in self.settings.items() if one.text != NULL}
        self.given = {name: (_SWITCHES.get(one.text.lower(), one.text),) for name, one in given.items()}

    def value(self, name: str) -> Value:
        """The value of a setting: the recipe's, or the release's default. Raises ``ReadingError``."""
        self.asked.add(name)
        if name in self.given:
            if self.settings[name].unknown:
                raise self.error(name, self.settings[name].unknown)
            if reasons := refused(self.release.arguments[name], self.given[name]):
                raise self.error(name, reasons[0].rstrip("."))
        return values_of(self.release, self.given, name)[0]

    def on(self, name: str) -> bool:
        """Whether a switch is on."""
        return bool(self.value(name))

    def number(self, name: str) -> int | None:
        """A number of something, at least 1; ``None`` without one. Raises ``ReadingError``."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, int) or value < 1:
            raise self.error(name, Sentence("{} is not allowed; give at least 1", value))
        return value

    def count(self, name: str) -> int:
        """A number that the recipe or a default has. Raises ``ReadingError``."""
        found = self.number(name)
        if found is None:
            raise self.error(name, Sentence("missing"))
        return found

    def error(self, name: str, reason: str) -> ReadingError:
        """The error for a setting, with its line."""
        return ReadingError(self._where(name, reason))

    def _where(self, name: str, reason: str) -> str:
        line = self.settings[name].line if name in self.settings else None
        return Sentence("{}: {}", name, reason) if line is None else Sentence("line {}: {}: {}", line, name, reason)

    def refuse(self, name: str, change: str) -> None:
        """Note a setting that is not priced."""
        self.found.append(Unread(name, change))

    def not_understood(self) -> tuple[Refusal, ...]:
        """All settings on which the price depends and that are not understood, in the recipe's order."""
        others = {name: values for name, values in self.given.items() if not self._is_understood(name)}
        priced = [*self.found, *unread(self.release, others), *self._unasked(others)]
        by_name = {entry.name: entry for entry in reversed(priced)}
        names = [name for name in dict.fromkeys((*self.given, *by_name)) if name in by_name]
        return tuple(Refusal(name, self._where(name, by_name[name].change)) for name in names)

    def broken(self) -> Iterator[str]:
        """A sentence for each combination that the release refuses."""
        known = {name: values for name, values in self.given.items() if name in self.release.arguments}
        yield from (told(fact) for fact in broken_facts(self.release, known))

    def _is_understood(self, name: str) -> bool:
        """Whether a setting was read, has no effect, or is priced in another form, which is then said."""
        if name in self.asked or name in self.release.unpriced_by_name:
            return name in self.asked and name not in self.release.unpriced_by_name
        for lead, sentence in self.otherwise.items():
            if name.startswith(lead):
                self.assumed[sentence] = None
                return True
        sections = (one.removesuffix("*") for one in self.release.without_effect if one.endswith(_SECTION))
        return any(name.startswith(section) for section in sections)

    def _unasked(self, others: Mapping[str, Any]) -> Iterator[Unread]:
        """Settings of the release that matter and that nothing has read."""
        for name in others:
            known = name in self.release.arguments and name not in self.release.unpriced_by_name
            if known and name not in self.asked and matters(self.release, name):
                yield Unread(name, CHANGES["cost"])
