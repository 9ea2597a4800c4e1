"""The parts that every objective has, and the context in which it values a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cost_models.constants import Constants
from cost_models.delivery.failures import DAY_S
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload

TOKENS = 1e12  # costs, energy and device-hours are those of so many tokens

Numbers = Mapping[str, Any]  # an estimate as JSON
Strategies = Sequence[ParallelStrategy]
Estimates = Sequence[Numbers]


class Criterion(Enum):
    """The numbers of a strategy by which the lattice can be ordered; smaller is better."""

    STEP_TIME = "step_time_s"
    PEAK_MEMORY = "peak_memory_bytes"


class Direction(Enum):
    """Whether the smaller or the larger of two numbers is better."""

    SMALLER = "smaller"
    LARGER = "larger"


class Need(Enum):
    """Facts about the site of a job without which an objective has no value."""

    FAILURES = "failures"
    POWER = "power"
    PRICE = "price"


@dataclass(frozen=True)
class Operation:
    """A plan in operation for months: fractions of wall time with useful steps and with any steps, and spare nodes."""

    useful_fraction: float
    running_fraction: float
    num_spares: int


@dataclass(frozen=True)
class ObjectiveContext:
    """All inputs to the value of a plan, except its estimate.

    ``operation`` computes a plan's operation. Energy and cost are per day of the whole site; ``None`` where the power of a device
    or its price is unknown. ``busy_fraction`` is the part of a step in which the devices compute.
    """

    workload: Workload
    constants: Constants
    num_spares: int
    operation: Callable[[ParallelStrategy, Numbers], Operation]
    busy_fraction: Callable[[Numbers], float]
    kwh_per_day: Callable[[Numbers, Operation], float] | None
    usd_per_day: Callable[[Numbers, Operation], float] | None

    def days(self, step_time_s: float, tokens: float = TOKENS) -> float:
        """Days that steps of this length take for ``tokens`` tokens."""
        training = self.workload.training
        return tokens / float(training.step_tokens) * step_time_s / DAY_S

    def lacks(self, need: Need) -> bool:
        """Whether nobody says what the objective needs. Failures have defaults."""
        known = {Need.FAILURES: True, Need.POWER: self.kwh_per_day is not None, Need.PRICE: self.usd_per_day is not None}
        return not known[need]

    @property
    def all_waiting(self) -> tuple[Numbers, Operation]:
        """A step in which no device computes, of a plan that always runs: nothing draws less or costs less a day."""
        return {"step_time_s": 1.0, "time_breakdown_s": {"host": 1.0}}, Operation(1.0, 1.0, self.num_spares)


@dataclass(frozen=True)
class Value:
    """The value of one plan: ``value`` orders plans, smaller first; ``shown`` and ``text`` are for answers."""

    value: float
    shown: float
    text: str


class PointNumbers(Protocol):
    """The numbers of a point of a sweep; ``None`` where one is unknown."""

    @property
    def step_time_s(self) -> float | None: ...  # noqa: D102
    @property
    def step_time_high_s(self) -> float | None: ...  # noqa: D102
    @property
    def headroom_bytes(self) -> float | None: ...  # noqa: D102
    @property
    def days(self) -> float | None: ...  # noqa: D102
    @property
    def device_days(self) -> float | None: ...  # noqa: D102
    @property
    def cost_usd(self) -> float | None: ...  # noqa: D102
    @property
    def energy_kwh(self) -> float | None: ...  # noqa: D102


@dataclass(frozen=True)
class PointValue:
    """The value of a point of a sweep, smaller first; what the best point is called, and what a point lacks without a value."""

    value: Callable[[PointNumbers], float | None]
    called: str
    needed: str


@dataclass(frozen=True)
class Objective:
    """An objective. No part has a default: an entry without one stops the import.

    Parameters
    ----------
    name
        Name in a job.
    unit
        Unit of the numbers that answers show; costs, energy and device-hours are for ``TOKENS``.
    direction
        Whether the smaller or the larger of these is better.
    orders_lattice_by
        The criterion by which the lattice itself is ordered; ``None`` where only a whole plan has a value. Such an objective
        ranks the fastest structures of the lattice.
    needs
        Facts about the site.
    values
        The values of plans.
    lower_bound
        A value that no plan beats whose step takes at least the given seconds. The proof rests on it.
    of_point
        The value of a point of a sweep.
    """

    name: str
    unit: str
    direction: Direction
    orders_lattice_by: Criterion | None
    needs: frozenset[Need]
    values: Callable[[ObjectiveContext, Strategies, Estimates], list[Value]]
    lower_bound: Callable[[ObjectiveContext, float], float]
    of_point: PointValue
