"""The budget of a check: bounds on metrics of a job, and tolerances against its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from app.checks.metrics import MEASURES, METRICS, SLOWDOWN
from documents.checking import Section, check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence

LARGEST = 1e18
Bound = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class Bounds(Section):
    """Bounds of a metric, both ends included."""

    min: Bound | None = None
    max: Bound | None = None


class Tolerance(Section):
    """Largest allowed worsening of a metric, as a fraction of the baseline."""

    max_fraction: float = Field(ge=0, le=1e6, description="0.02: up to 2 % worse; 0: not worse at all")


class BudgetSettings(Section):
    """Bounds by metric, in the units of its name."""

    schema_version: Literal[1] = 1


# One field for each metric, so that an unknown or misspelt metric is refused like any other key.
if TYPE_CHECKING:
    RegressionSection = Section
    BudgetDocument = BudgetSettings
else:
    RegressionSection = create_model(
        "RegressionSection",
        __base__=Section,
        __doc__="How much worse than the baseline each metric may be. Default: `step_time_s: {max_fraction: 0}`.",
        **{name: (Tolerance | None, None) for name in MEASURES},
    )
    BudgetDocument = create_model(
        "BudgetDocument",
        __base__=BudgetSettings,
        **{name: (Bounds | None, None) for name in METRICS},
        regression=(RegressionSection | None, Field(default=None, description="used with a baseline only")),
    )

NO_SLOWER: Mapping[str, float] = {"step_time_s": 0.0}


@dataclass(frozen=True)
class Budget:
    """A checked budget; ``tolerances`` are the worsenings against a baseline that are allowed, by metric."""

    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=lambda: NO_SLOWER)

    @property
    def needs_search(self) -> bool:
        return SLOWDOWN in self.bounds

    def limits(self) -> Iterator[tuple[str, str, float]]:
        """Metric, ``min`` or ``max``, and the bound."""
        for metric, bounds in self.bounds.items():
            for end, value in (("min", bounds.min), ("max", bounds.max)):
                if value is not None:
                    yield metric, end, value


def parse_budget(document: Mapping[str, Any], *, has_baseline: bool = False) -> Budget:
    """The budget in a document; ``InputError`` if it is none, or would check nothing."""
    parsed = check(BudgetDocument, dict(document), "budget")
    bounds = {name: found for name in METRICS if (found := getattr(parsed, name)) is not None}
    for name, found in bounds.items():
        if found.min is None and found.max is None:
            raise InputError(Sentence("budget.{}: bounds nothing; give min, max or both.", name))
        if found.min is not None and found.max is not None and found.min > found.max:
            raise InputError(Sentence("budget.{}: min {:g} is above max {:g}; no value is within.", name, found.min, found.max))
    regression = getattr(parsed, "regression", None)
    tolerances = None
    if not bounds and regression is None:
        raise InputError(Sentence("budget: bounds nothing; give a metric its min or max, as in step_time_s: {{max: 20}}."))
    if regression is not None:
        tolerances = {name: found.max_fraction for name in MEASURES if (found := getattr(regression, name)) is not None}
        if not has_baseline:
            raise InputError(
                Sentence("budget.regression: there is no baseline to compare with; give one (--baseline) or leave it out.")
            )
    return Budget(bounds, NO_SLOWER if tolerances is None else tolerances)
