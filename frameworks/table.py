"""Names of the parts of a plan in a framework: switches, recompute modules, dispatchers, schedules and degrees as arguments.

From one ``Table`` follow the supported parts (with the rules about them), the writer and the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_models.schedules.schedule import ScheduleRules
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import Feature
from documents.late_methods import dataclass
from frameworks.release import Given, Release, holds

K = TypeVar("K")


@dataclass(frozen=True)
class SwitchArgument:
    """One switch of plans as an argument.

    ``on``: values that switch it on; the first one is written (none: the bare argument). ``off``: the value written if it is
    off (``None``: nothing is written). ``negated``: the bare argument switches it off. ``only``: conditions on arguments; the
    argument has a meaning only if one of them holds. ``beside``: arguments that are written with it. ``former``: another
    argument with the same meaning.
    """

    feature: Feature
    argument: str
    on: tuple[Any, ...] = ()
    off: Any = None
    negated: bool = False
    only: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    former: str = ""

    def written(self, features: Feature) -> Any:
        """The value to write: ``()`` for the bare argument, ``None`` for nothing."""
        on = self.feature in features
        if self.on:
            return self.on[0] if on else self.off
        return () if on != self.negated else None

    def means(self, release: Release, given: Given) -> bool:
        """Whether the argument has a meaning together with the given ones."""
        return not self.only or any(holds(release, given, condition) for condition in self.only)

    def read(self, value: Any) -> bool:
        """Whether a value of the argument (for a bare one, its presence) switches the feature on."""
        return value in self.on if self.on else bool(value) != self.negated


@dataclass(frozen=True)
class Table:
    """Names of the parts of a plan. ``columns``: field of a strategy -> argument.

    ``implied``: switches without an argument, which the framework sets by itself. ``modules``: recompute modules by the value
    that names them; ``module_switches``: those with their own argument. No others are supported, unless a rule of the framework
    decides (``modules_by_rule``). ``schedules`` without a value of their own have an empty one.
    """

    columns: Mapping[str, str]
    switches: tuple[SwitchArgument, ...]
    dispatchers: Mapping[Dispatcher, str]
    cp_algos: Mapping[CpAlgo, str]
    schedules: Mapping[Schedule, str]
    modules: Mapping[RecomputeModule, str] = field(default_factory=dict)
    module_switches: Mapping[RecomputeModule, str] = field(default_factory=dict)
    modules_by_rule: bool = False
    implied: Feature = Feature(0)

    @cached_property
    def offered(self) -> Feature:
        """Switches that plans for the framework can have."""
        offered = self.implied
        for switch in self.switches:
            offered |= switch.feature
        return offered

    @cached_property
    def unnamed_modules(self) -> RecomputeModule:
        """Recompute modules that plans for the framework cannot have."""
        if self.modules_by_rule:
            return RecomputeModule(0)
        return RecomputeModule(sum(set(RecomputeModule).difference(self.modules, self.module_switches)))

    def schedules_with(self, trait: Callable[[ScheduleRules], bool]) -> NDArray[np.bool_]:
        """Which schedules the framework has and have a trait: a table to index by schedules."""
        return np.array([schedule in self.schedules and trait(schedule.rules) for schedule in Schedule])

    def arguments_of(self, features: Feature) -> dict[str, Any]:
        """The switches among ``features`` by argument, to be resolved when the other arguments are known."""
        return {switch.argument: switch for switch in self.switches if switch.feature in features}


def key_of(names: Mapping[K, str], value: object, default: K) -> K:
    """The key whose name in a table is ``value``."""
    return next((key for key, name in names.items() if name == value), default)


def settled(
    release: Release, written: Mapping[str, Any], features: Feature, given: Callable[[Any], tuple[str, ...]]
) -> dict[str, Any]:
    """The arguments, with their switches written if they have a meaning together with the others.

    ``given`` converts a value for the release's conditions.
    """
    known = {name: given(value) for name, value in written.items() if not isinstance(value, SwitchArgument)}
    arguments: dict[str, Any] = {}
    for name, value in written.items():
        if not isinstance(value, SwitchArgument):
            arguments[name] = value
            continue
        beside = value.beside if value.feature in features else {}
        meant = known | {other: given(its) for other, its in beside.items()}
        if value.means(release, meant) and (chosen := value.written(features)) is not None:
            arguments |= {name: chosen, **beside}
    return arguments


def features_read(table: Table, release: Release, given: Given, value_of: Callable[[str], Any]) -> Feature:
    """The switches that arguments set or leave on; ``value_of`` reads an argument, or its default."""
    features = Feature(0)
    for switch in table.switches:
        if switch.means(release, given) and (
            switch.read(value_of(switch.argument)) or (switch.former and switch.read(value_of(switch.former)))
        ):
            features |= switch.feature
    return features
