"""The table of objectives, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from search.objectives.cost import COST
from search.objectives.delivered import DELIVERED
from search.objectives.device_hours import DEVICE_HOURS
from search.objectives.energy import ENERGY
from search.objectives.memory_headroom import MEMORY_HEADROOM
from search.objectives.objective import Objective
from search.objectives.robust import ROBUST
from search.objectives.step_time import STEP_TIME


def table_of(entries: Iterable[Objective]) -> Mapping[str, Objective]:
    """The entries by name. Raises ``TypeError`` for one that lacks a part, and for a name that comes twice."""
    found: dict[str, Objective] = {}
    for entry in entries:
        parts = (entry.values, entry.lower_bound, entry.of_point.value)
        if not (entry.name and entry.unit and all(map(callable, parts))):
            raise TypeError(f"objective {entry.name!r}: name, unit, values, lower_bound and of_point must all be given")
        if entry.name in found:
            raise TypeError(f"objective {entry.name!r} comes twice")
        found[entry.name] = entry
    return MappingProxyType(found)


OBJECTIVES = table_of((STEP_TIME, MEMORY_HEADROOM, DEVICE_HOURS, DELIVERED, COST, ENERGY, ROBUST))
OF_LATTICE = tuple(name for name, entry in OBJECTIVES.items() if entry.orders_lattice_by is not None)
