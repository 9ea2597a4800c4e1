"""The names by which a user allows and forbids values, whichever dimension a name belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from cost_models.shapes.effective_switches import OF_MODEL, model_scope, why_idle
from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import LEFT_OUT, SWITCHES, Feature, InSearch
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.facts import FactRule
from frameworks.legality import rules_for
from frameworks.registry import framework_of, offered, parse_target
from search.errors import SearchError

K = TypeVar("K")

FEATURES = {str(feature.name).lower(): feature for feature in Feature}
OPTIONS: dict[str, IntEnum] = {
    **{schedule.label: schedule for schedule in Schedule if schedule},
    **{dispatcher.label: dispatcher for dispatcher in Dispatcher if dispatcher},
    **{algo.label: algo for algo in CpAlgo if algo},
}
NAMES = (*FEATURES, *OPTIONS, *MODULE_NAMES)
if len(set(NAMES)) < len(FEATURES) + len(OPTIONS) + len(MODULE_NAMES):
    raise TypeError("a name of a switch, a schedule, a dispatcher, a cp algorithm or a recompute module means one of them")


def features_among(names: frozenset[str]) -> Feature:
    """The switches among the names."""
    return Feature(sum(FEATURES[name] for name in names if name in FEATURES))


def modules_among(names: frozenset[str]) -> RecomputeModule:
    """The recompute modules among the names."""
    return RecomputeModule(sum(MODULE_NAMES[name] for name in names if name in MODULE_NAMES))


def kept(
    dimension: str, values: Sequence[K], labels: dict[str, K], allow: frozenset[str], forbid: frozenset[str]
) -> tuple[K, ...]:
    """The values of a dimension with those that are allowed by name and without those that are forbidden.

    Raises ``SearchError`` where none is left.
    """
    every = dict.fromkeys((*values, *(value for name, value in labels.items() if name in allow)))
    refused = {value for name, value in labels.items() if name in forbid}
    left = tuple(value for value in every if value not in refused)
    if not left:
        names = joined(", ", sorted(forbid))
        raise SearchError(
            Sentence("search.forbid: without {} {} has no value left; forbid fewer, or allow another.", names, dimension)
        )
    return left


def notes(workload: Workload, names: dict[str, frozenset[str]], asked: Feature, tried: dict[str, Any]) -> Iterator[str]:
    """A sentence on each name that changes nothing, and on other switches that a forbidden name takes along.

    ``names`` are the names in ``allow`` and in ``forbid``, ``asked`` the switches that separate limits switch on, ``tried`` the
    values of the space without them, by dimension. Raises ``SearchError`` for a name that the target needs.
    """
    for kind, given in names.items():
        for name in sorted(given):
            if kind == "forbid" and name in FEATURES:
                _check_not_needed(workload, FEATURES[name])
            why = _idle(workload, name) or _as_it_is(kind, name, tried)
            if why:
                yield Sentence("search.{}: {} has no effect: {}.", kind, name, why)
            elif kind == "forbid" and name in FEATURES:
                yield from _gone_with(workload, FEATURES[name])
    for feature in asked:
        name = str(feature.name).lower()
        if why := _idle(workload, name):
            yield Sentence("search.{}: it has no effect: {}.", name, why)


def absent_algorithms(workload: Workload, asked: Sequence[CpAlgo]) -> Iterator[str]:
    """A sentence on the cp algorithms of a limit that the target lacks."""
    absent = [algo.label for algo in asked if _idle(workload, algo.label)]
    if absent:
        names, target = joined(", ", absent), parse_target(workload.software.target).label
        if len(absent) == len(asked):
            yield Sentence("search.cp_algo: {} has no {}, so that no plan has cp above 1.", target, names)
        else:
            yield Sentence("search.cp_algo: {} has no effect: {} has none.", names, target)


def _idle(workload: Workload, name: str) -> str:
    """Why a name has no meaning for this job or its target."""
    target = parse_target(workload.software.target)
    framework = framework_of(workload.software.target)
    if name in FEATURES:
        feature, family = FEATURES[name], workload.cluster.profile.family
        of_model = model_scope(workload.model) | ~OF_MODEL
        if why := why_idle(feature, of_model):
            return why
        if feature not in offered(target.label, family):
            library = SWITCHES[feature].library
            return (
                Sentence("it belongs to {} devices", library.value)
                if library and not framework
                else Sentence("{} has no such switch", target.label)
            )
        return "" if SWITCHES[feature].priced else Sentence("no price depends on it")
    if name in OPTIONS:
        option = OPTIONS[name]
        if isinstance(option, Dispatcher) and workload.model.moe is None:
            return Sentence("the model has no experts")
        if framework is None:
            return ""
        table = framework.table
        has = (*table.schedules, *table.dispatchers, *table.cp_algos)  # the same number means other options elsewhere
        return "" if any(option is known for known in has) else Sentence("{} has none", target.label)
    unnamed = RecomputeModule(0) if framework is None else framework.table.unnamed_modules
    return Sentence("{} does not recompute it by name", target.label) if MODULE_NAMES[name] in unnamed else ""


_TRIED_ANYWAY = {
    InSearch.ON: Sentence("a search takes it anyway"),
    InSearch.LEAN_ON: Sentence("a search tries it anyway where plans do not fit without it"),
    InSearch.LEAN_OFF: Sentence("a search takes it anyway, and goes without it where plans do not fit"),
    InSearch.WITH_SCHEDULE: Sentence("a search tries it anyway"),
}


def _as_it_is(kind: str, name: str, tried: dict[str, Any]) -> str:
    """Why a name changes nothing in the search."""
    if name in FEATURES:
        way = SWITCHES[FEATURES[name]].in_search
        if (way in LEFT_OUT) != (kind == "forbid"):
            return ""
        return Sentence("a search leaves it out anyway") if way in LEFT_OUT else _TRIED_ANYWAY[way]
    if name in OPTIONS:
        is_tried = any(value is OPTIONS[name] for values in tried.values() for value in values)
    else:
        is_tried = any(MODULE_NAMES[name] in mode.modules for mode in tried["recompute"])
    if is_tried == (kind == "allow"):
        return Sentence("a search tries it anyway") if is_tried else Sentence("a search does not try it anyway")
    return ""


def _check_not_needed(workload: Workload, feature: Feature) -> None:
    framework = framework_of(workload.software.target)
    if framework is not None and feature in framework.table.implied:
        name = str(feature.name).lower()
        raise SearchError(
            Sentence("search.forbid: {} cannot be forbidden: {} has it on by itself, always.", name, framework.target.label)
        )


def _gone_with(workload: Workload, feature: Feature) -> Iterator[str]:
    """Switches that the target takes only together with this one."""
    for rule in rules_for(workload.software.target):
        if isinstance(rule, FactRule) and feature in rule.needs:
            yield Sentence(
                "search.forbid: {} wants {} elsewhere ({}).",
                workload.software.target,
                str(feature.name).lower(),
                rule.requirement,
            )


def allowed_both_ways(names: frozenset[str]) -> Feature:
    """The allowed switches that a search then tries on and off."""
    return Feature(sum(f for f in features_among(names) if SWITCHES[f].in_search is InSearch.LEFT_OUT and SWITCHES[f].priced))
