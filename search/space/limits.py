"""The limits of a search, dimension by dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from cost_models.shapes import switches
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import Feature
from documents.bounds import MAX_DEVICES, MAX_VALUES, Degree, Name, ZeroStage
from documents.checking import OneOf, Section, check
from documents.sentences import Sentence
from search.space.allowed_names import NAMES
from search.space.recompute_modes import RecomputeMode, recompute_mode

MAX_SWITCHES = 12  # tried on and off: their combinations multiply

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size")
SWITCHES = {feature.name.lower(): feature for feature in Feature if feature.name}
GROUP_SIZE = "microbatch_group_size_per_vp_stage"
CP_ALGOS = {algo.label: algo for algo in CpAlgo if algo}
SCHEDULES = {schedule.label: schedule for schedule in Schedule}
DISPATCHERS = {dispatcher.label: dispatcher for dispatcher in Dispatcher if dispatcher}


class Range(Section):
    """Bounds of a dimension, both included; they select from the values that a search tries by default."""

    min: Degree | None = None
    max: Degree | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError(Sentence("bounds nothing; give min, max or both."))
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(Sentence("min {} is above max {}.", self.min, self.max))
        return self


Degrees = tuple[int, ...] | Range | None


@dataclass(frozen=True)
class SearchLimits:
    """The values that each dimension may take; ``None`` means the default grid of ``search_space.py``.

    A range selects from that grid, a tuple replaces it. ``switches`` holds the switches that are limited. ``allow`` and
    ``forbid`` hold names (``allowed_names.py``): values that are tried in addition to the grid, and values that are never tried.
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
    allow: frozenset[str] = frozenset()
    forbid: frozenset[str] = frozenset()


DegreeLimit = Degree | Annotated[list[Degree], Field(min_length=1, max_length=MAX_VALUES)] | Range | None
SwitchLimit = bool | Annotated[list[bool], Field(min_length=1, max_length=2)] | None
CpAlgoName = Annotated[str, OneOf(*CP_ALGOS)]
ScheduleName = Annotated[str, OneOf(*SCHEDULES)]
DispatcherName = Annotated[str, OneOf(*DISPATCHERS)]
AllowedName = Annotated[str, OneOf(*NAMES)]
Names = AllowedName | Annotated[list[AllowedName], Field(min_length=1, max_length=MAX_VALUES)] | None
ModeName = Annotated[Name, AfterValidator(recompute_mode)]
GroupSize = Annotated[int, Field(ge=0, le=MAX_DEVICES)]


class LimitFields(Section):
    """The values of each dimension: one value, a list, or ``{min, max}``."""

    tp: DegreeLimit = None
    pp: DegreeLimit = None
    vpp: DegreeLimit = None
    cp: DegreeLimit = None
    ep: DegreeLimit = None
    etp: DegreeLimit = None
    micro_batch_size: DegreeLimit = None
    sequence_parallel: SwitchLimit = None
    cp_algo: CpAlgoName | Annotated[list[CpAlgoName], Field(min_length=1, max_length=MAX_VALUES)] | None = None
    schedule: ScheduleName | Annotated[list[ScheduleName], Field(min_length=1, max_length=MAX_VALUES)] | None = None
    microbatch_group_size_per_vp_stage: (
        GroupSize | Annotated[list[GroupSize], Field(min_length=1, max_length=MAX_VALUES)] | None
    ) = Field(default=None, description="default 0: pp; only interleaved-1f1b has it")
    moe_dispatcher: DispatcherName | Annotated[list[DispatcherName], Field(min_length=1, max_length=MAX_VALUES)] | None = None
    recompute: ModeName | Annotated[list[ModeName], Field(min_length=1, max_length=MAX_VALUES)] | None = None
    zero_stage: ZeroStage | Annotated[list[ZeroStage], Field(min_length=1, max_length=4)] | None = None

    allow: Names = Field(default=None, description="what a search tries only if asked: switches, schedules, recompute modules")
    forbid: Names = Field(
        default=None, description="what it leaves out: switches, schedules, dispatchers, cp algorithms, recompute modules"
    )

    @model_validator(mode="after")
    def _one_word_on_each_name(self) -> Self:
        allow, forbid = (frozenset(_values(names) or ()) for names in (self.allow, self.forbid))
        for name in sorted(allow & forbid):
            raise ValueError(Sentence("{} is in allow and in forbid; give it in one of the two.", name))
        for name in sorted((allow | forbid) & self.model_fields_set & SWITCHES.keys()):
            kind = "allow" if name in allow else "forbid"
            raise ValueError(Sentence("{} is in {} and has values of its own; give one of the two.", name, kind))
        return self

    @model_validator(mode="after")
    def _switches_are_few(self) -> Self:
        both = [name for name in self.model_fields_set & SWITCHES.keys() if len(_values(getattr(self, name)) or ()) > 1]
        if len(both) > MAX_SWITCHES:
            raise ValueError(Sentence("at most {} switches can be tried both ways; fix some of them.", MAX_SWITCHES))
        return self


# One more dimension for each switch that a search may try both ways.
SWITCH_LIMITS: dict[str, Any] = {
    name: (SwitchLimit, Field(default=None, description=switches.SWITCHES[feature].meaning)) for name, feature in SWITCHES.items()
}
if TYPE_CHECKING:
    LimitsSection = LimitFields
else:
    LimitsSection = create_model("LimitsSection", __base__=LimitFields, **SWITCH_LIMITS)


def limits_from_mapping(mapping: Mapping[str, object]) -> SearchLimits:
    """Limits from the ``search`` part of a job. Raises ``InputError`` for a bad value."""
    return limits_from_section(check(LimitsSection, mapping, "search"))


def limits_from_section(section: LimitFields) -> SearchLimits:
    """Limits from a section that was checked already."""
    given: dict[str, Any] = {
        name: value if isinstance(value := getattr(section, name), Range) else _values(value) for name in LimitFields.model_fields
    }
    given["dispatcher"] = _named(given.pop("moe_dispatcher"), DISPATCHERS)
    given["cp_algo"] = _named(given["cp_algo"], CP_ALGOS)
    given["schedule"] = _named(given["schedule"], SCHEDULES)
    given |= {name: frozenset(given[name] or ()) for name in ("allow", "forbid")}
    given_names = section.model_fields_set
    chosen = {SWITCHES[name]: _values(getattr(section, name)) or () for name in SWITCHES if name in given_names}
    return SearchLimits(**given, switches=chosen)


def _values(given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    return tuple(dict.fromkeys(given if isinstance(given, list) else [given]))


def _named(names: tuple[str, ...] | None, members: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return None if names is None else tuple(members[name] for name in names)
