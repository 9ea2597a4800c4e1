"""What a user allows a search to try, dimension by dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from cost_models.shapes.strategy import CpAlgo, Dispatcher, Feature, Schedule
from search.errors import SearchError
from search.recompute_modes import RecomputeMode, recompute_mode

MAX_DEGREE = 1_000_000
MAX_VALUES = 4096  # of one dimension
MAX_SWITCHES = 12  # searched both ways: their combinations multiply

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size")
SWITCHES = {feature.name.lower(): feature for feature in Feature if feature.name}
GROUP_SIZE = "microbatch_group_size_per_vp_stage"
DIMENSIONS = (
    *DEGREES,
    *("sequence_parallel", "cp_algo", "schedule", GROUP_SIZE, "dispatcher", "recompute", "zero_stage"),
    *SWITCHES,
)
CP_ALGOS = {algo.label: algo for algo in CpAlgo if algo}
SCHEDULES = {schedule.label: schedule for schedule in Schedule}
DISPATCHERS = {dispatcher.label: dispatcher for dispatcher in Dispatcher if dispatcher}

Value = TypeVar("Value")


@dataclass(frozen=True)
class Range:
    """Both ends included; ``None`` leaves an end to the default grid."""

    minimum: int | None = None
    maximum: int | None = None


Degrees = tuple[int, ...] | Range | None


@dataclass(frozen=True)
class SearchLimits:
    """Values that each dimension may take; ``None`` means the default grid of ``search.space``.

    A range selects from that grid, a tuple replaces it. ``switches`` holds the features that are asked for.
    """

    tp: Degrees = None
    pp: Degrees = None
    vpp: Degrees = None
    cp: Degrees = None
    ep: Degrees = None
    etp: Degrees = None
    micro_batch_size: Degrees = None
    sequence_parallel: tuple[bool, ...] | None = None
    cp_algo: tuple[CpAlgo, ...] | None = None
    schedule: tuple[Schedule, ...] | None = None
    microbatch_group_size_per_vp_stage: tuple[int, ...] | None = None  # 0: pp
    dispatcher: tuple[Dispatcher, ...] | None = None
    recompute: tuple[RecomputeMode, ...] | None = None
    zero_stage: tuple[int, ...] | None = None
    switches: Mapping[Feature, tuple[bool, ...]] = field(default_factory=dict)


def limits_from_mapping(mapping: Mapping[str, object]) -> SearchLimits:
    """Limits from the dimensions of a job's ``search`` part: for each a value, a list of values or ``{min, max}``.

    Raises ``SearchError`` for an unknown dimension or a value that it cannot take.
    """
    given: dict[str, Any] = {}
    switches: dict[Feature, tuple[bool, ...]] = {}
    for key, value in mapping.items():
        name = "dispatcher" if key == "moe_dispatcher" else key
        if name in DEGREES:
            given[name] = _degrees(name, value)
        elif name in SWITCHES:
            switches[SWITCHES[name]] = _values(name, value, _switch)
        elif name in _CHOICES:
            given[name] = _values(name, value, _CHOICES[name])
        else:
            near = get_close_matches(str(key), DIMENSIONS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise SearchError(f"search.{key} is no dimension of the search{hint}")
    if sum(len(values) > 1 for values in switches.values()) > MAX_SWITCHES:
        raise SearchError(f"search: at most {MAX_SWITCHES} switches can be tried both ways; fix some of them")
    return SearchLimits(**given, switches=switches)


def _integer(name: str, value: object, *, low: int = 1, high: int = MAX_DEGREE) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SearchError(f"search.{name}: {value!r} is not an integer from {low} to {high}")
    return value


def _degrees(name: str, value: object) -> tuple[int, ...] | Range:
    if isinstance(value, Mapping):
        unknown = set(value) - {"min", "max"}
        if unknown or not value:
            raise SearchError(f"search.{name}: a range has the keys min and max, not {', '.join(map(str, value)) or 'none'}")
        ends = {end: _integer(f"{name}.{end}", value[end]) for end in ("min", "max") if value.get(end) is not None}
        if len(ends) == 2 and ends["min"] > ends["max"]:
            raise SearchError(f"search.{name}: min {ends['min']} is above max {ends['max']}")
        return Range(ends.get("min"), ends.get("max"))
    return _values(name, value, _integer)


def _values(name: str, value: object, parse: Callable[[str, object], Value]) -> tuple[Value, ...]:
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not listed:
        raise SearchError(f"search.{name}: the list is empty; leave it out to search the default values")
    if len(listed) > MAX_VALUES:
        raise SearchError(f"search.{name}: {len(listed)} values, at most {MAX_VALUES} are allowed")
    return tuple(dict.fromkeys(parse(name, entry) for entry in listed))


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SearchError(f"search.{name}: {value!r} is neither true nor false")
    return value


def _named(names: Mapping[str, Value]) -> Callable[[str, object], Value]:
    def parse(name: str, value: object) -> Value:
        if isinstance(value, str) and value in names:
            return names[value]
        near = get_close_matches(str(value), names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise SearchError(f"search.{name}: {value!r} is not one of {', '.join(names)}{hint}")

    return parse


def _recompute(name: str, value: object) -> RecomputeMode:
    if not isinstance(value, str):
        raise SearchError(f"search.{name}: {value!r} is not the name of a recompute mode")
    try:
        return recompute_mode(value)
    except SearchError as error:
        raise SearchError(f"search.{error}") from None


def _group_size(name: str, value: object) -> int:
    return _integer(name, value, low=0)


def _zero_stage(name: str, value: object) -> int:
    return _integer(name, value, low=0, high=3)


_CHOICES: dict[str, Callable[[str, object], Any]] = {
    "sequence_parallel": _switch,
    "cp_algo": _named(CP_ALGOS),
    "schedule": _named(SCHEDULES),
    GROUP_SIZE: _group_size,
    "dispatcher": _named(DISPATCHERS),
    "recompute": _recompute,
    "zero_stage": _zero_stage,
}
