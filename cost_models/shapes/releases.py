"""Releases of the training stacks: what people call them, when they appeared, and how device time differs between them.

A ladder holds what is known of one stack, oldest first. Time of the devices under a release is one constant of the stack to the
power of its rung, so that another release that is as far from its predecessor is another line here and no further constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """Releases of one speed. ``steps`` is the power of the ladder's constant; ``num_runs`` measured it."""

    since: float  # the year from which on, as ``Software.year``
    releases: str
    steps: float
    num_runs: int


@dataclass(frozen=True)
class Ladder:
    """A stack's releases.

    ``constant`` names the device time of one step over none, in ``cost_models.constants``; ``rungs`` are in order of ``since``;
    ``names`` are those of branches, with the years in which they appeared.
    """

    constant: str
    rungs: tuple[Rung, ...]
    names: Mapping[str, float]

    def rung(self, year: float | None) -> Rung:
        """The releases of a year; the newest ones where it is not known.

        Parameters
        ----------
        year : float or None
            When a release appeared (2024.5: July 2024).

        Returns
        -------
        Rung
        """
        if year is None:
            return self.rungs[-1]
        return next((rung for rung in reversed(self.rungs) if year >= rung.since), self.rungs[0])

    @property
    def years(self) -> tuple[float, ...]:
        """A year of each rung, in order: the one in which it begins, of the oldest the last one before the next."""
        return (math.ceil(self.rungs[1].since) - 1, *(rung.since for rung in self.rungs[1:]))

    def year_of(self, release: str) -> float | None:
        """When a named release appeared: ``r1.3``, ``1.3`` and ``r1.3.0`` are one; ``None`` for a name that is not known.

        Parameters
        ----------
        release : str
            As its makers or its users call it.

        Returns
        -------
        float or None
        """
        parts = release.strip().lower().removeprefix("r").split(".")
        return next((year for name, year in self.names.items() if name.removeprefix("r").split(".") == parts[:2]), None)


# Steps are whole: which releases stand together follows from runs of one configuration under several releases [runs-ascend].
MINDSPEED_LLM = Ladder(
    "recent_eager_factor",
    (Rung(0.0, "before 2.0", 0.0, 54), Rung(2025.0, "2.0 and later", 1.0, 20)),
    {"1.0": 2024.9, "2.0": 2025.2, "2.1": 2025.5, "2.2": 2025.8, "2.3": 2026.0},
)
MINDFORMERS = Ladder(
    "early_graph_factor",
    (Rung(0.0, "before r1.2", 1.0, 14), Rung(2024.5, "r1.2 and r1.3", 0.0, 33), Rung(2025.25, "r1.5 and later", -1.0, 6)),
    {
        "r0.8": 2023.8,
        "r1.0": 2024.1,
        "r1.1": 2024.3,
        "r1.2": 2024.6,
        "r1.3": 2024.9,
        "r1.5": 2025.3,
        "r1.6": 2025.6,
        "r1.7": 2025.9,
        "r1.8": 2026.2,
    },
)
