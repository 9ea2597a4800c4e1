"""A search space as JSON that reads back to the same lattice, also under another default grid."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from cost_models.shapes.strategy import CpAlgo, Dispatcher, Named, Schedule
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence
from search.errors import SearchError
from search.space.limits import DEGREES, GROUP_SIZE, SWITCHES
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace

_LABELLED: dict[str, type[Named] | type[Schedule]] = {"cp_algo": CpAlgo, "schedule": Schedule, "dispatcher": Dispatcher}
_PLAIN = (*DEGREES, "sequence_parallel", GROUP_SIZE, "zero_stage")
_COMBINATIONS = ("features", "dualpipev_features", "interleaved_features")
_SETS = ("wanted", "leaner")
_SHARDS = "optimizer_shard_size"


def space_to_mapping(space: SearchSpace) -> dict[str, Any]:
    """Every value of every dimension; each combination of switches is names joined by spaces."""
    return {
        **{name: list(getattr(space, name)) for name in _PLAIN},
        **{name: [kind.label for kind in getattr(space, name)] for name in _LABELLED},
        "recompute": [mode.name for mode in space.recompute],
        **{name: [_names(combination) for combination in getattr(space, name)] for name in _COMBINATIONS},
        **{name: _names(getattr(space, name)) for name in _SETS},
        _SHARDS: list(space.optimizer_shard_size),
    }


def space_from_mapping(mapping: Mapping[str, Any]) -> SearchSpace:
    """The space that ``space_to_mapping`` wrote. Raises ``SearchError`` for anything else."""
    try:
        values: dict[str, Any] = {name: tuple(mapping[name]) for name in _PLAIN}
        for name in _COMBINATIONS:
            values[name] = tuple(_combination(names) for names in mapping[name])
        values |= {name: _combination(mapping.get(name, "")) for name in _SETS}  # older spaces lack these sets
        values[_SHARDS] = tuple(mapping.get(_SHARDS, (0,)))  # older spaces lack it
        for name, enumeration in _LABELLED.items():
            by_label = {kind.label: kind for kind in enumeration}
            values[name] = tuple(by_label[label] for label in mapping[name])
        return SearchSpace(**values, recompute=tuple(recompute_mode(name) for name in mapping["recompute"]))
    except (KeyError, TypeError, ValueError) as error:
        raise SearchError(Sentence("space: not one that a search of this version can read ({}).", error)) from None


def _names(combination: Feature) -> str:
    return " ".join(name for name, feature in SWITCHES.items() if feature & combination)


def _combination(names: str) -> Feature:
    return reduce(or_, (SWITCHES[name] for name in names.split()), Feature(0))
