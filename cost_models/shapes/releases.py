"""Releases of the training stacks: their names, their dates, and how device time differs between them.

A ladder holds the known releases of one stack, oldest first. Device time under a release is one constant of the stack to the
power of its rung. A new release with the same distance to its predecessor therefore needs one line and no new constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from documents.late_methods import dataclass
from documents.sentences import Sentence


@dataclass(frozen=True)
class Rung:
    """Releases with the same speed. ``steps`` is the exponent of the ladder's constant; ``num_runs`` runs measured it."""

    since: float  # first year, as in ``Software.year``
    releases: str
    steps: float
    num_runs: int


@dataclass(frozen=True)
class Ladder:
    """The releases of one stack.

    ``constant`` names the factor on device time for one step, in ``cost_models.constants``. ``rungs`` are in order of ``since``.
    ``names`` maps branch names to the year of their release.
    """

    constant: str
    rungs: tuple[Rung, ...]
    names: Mapping[str, float]

    def rung(self, year: float | None) -> Rung:
        """The rung of releases in a year (2024.5: July 2024); the newest if the year is unknown."""
        if year is None:
            return self.rungs[-1]
        return next((rung for rung in reversed(self.rungs) if year >= rung.since), self.rungs[0])

    @property
    def mean_steps(self) -> float:
        """Mean of all rungs' steps, for a run of which no release is known."""
        return sum(rung.steps for rung in self.rungs) / len(self.rungs)

    @property
    def years(self) -> tuple[float, ...]:
        """One year for each rung, in order: the year in which it begins. For the oldest, the last year before the next rung."""
        return (math.ceil(self.rungs[1].since) - 1, *(rung.since for rung in self.rungs[1:]))

    def year_of(self, release: str) -> float | None:
        """Year of a named release, or ``None`` for an unknown name; ``r1.3``, ``1.3`` and ``r1.3.0`` are the same."""
        parts = release.strip().lower().removeprefix("r").split(".")
        return next((year for name, year in self.names.items() if name.removeprefix("r").split(".") == parts[:2]), None)


# Steps are whole numbers. Runs of one configuration under several releases decide which releases share a rung [runs-ascend].
MINDSPEED_LLM = Ladder(
    "recent_eager_factor",
    (Rung(0.0, "before 2.0", 0.0, 54), Rung(2025.0, Sentence("2.0 and later"), 1.0, 20)),
    {"1.0": 2024.9, "2.0": 2025.2, "2.1": 2025.5, "2.2": 2025.8, "2.3": 2026.0},
)
MINDFORMERS = Ladder(
    "early_graph_factor",
    (
        Rung(0.0, Sentence("before r1.2"), 1.0, 14),
        Rung(2024.5, Sentence("r1.2 and r1.3"), 0.0, 33),
        Rung(2025.25, Sentence("r1.5 and later"), -1.0, 6),
    ),
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
