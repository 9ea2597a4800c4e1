"""Intervals of a job that leaves open what its price depends on: how operands in 8 bits are scaled, and how long samples are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.answers.open_lengths import doubt_of_lengths, shortest_fractions, with_shortest_samples
from app.answers.open_recipe import ByRecipe, by_recipe, with_open_recipe, with_open_recipe_of_plans
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy


class OpenFields(NamedTuple):
    """What one strategy of a job may take besides its price. ``shortest_fraction``: see ``shortest_fractions``."""

    recipes: ByRecipe
    shortest_fraction: float

    def widen(self, numbers: dict[str, Any]) -> None:
        """Widen the intervals of the strategy's estimate."""
        with_open_recipe(numbers, self.recipes)
        with_shortest_samples(numbers, self.shortest_fraction)


def open_fields(job: Job, strategies: Sequence[ParallelStrategy], own: Sequence[Calibration]) -> list[OpenFields]:
    """What each strategy of the job may take besides its price; legal strategies."""
    found = zip(by_recipe(job.workload, strategies, own), shortest_fractions(job, strategies, own), strict=True)
    return [OpenFields(*each) for each in found]


def with_open_fields_of_plans(
    job: Job, document: dict[str, Any], strategies: Sequence[ParallelStrategy], own: Sequence[Calibration]
) -> list[str]:
    """Widen the intervals of a search's plans, and return the warnings that say why."""
    for plan, fraction in zip(document["plans"], shortest_fractions(job, strategies, own), strict=True):
        with_shortest_samples(plan["estimate"], fraction)
    return [*warnings_of(job), *with_open_recipe_of_plans(job.workload, document, strategies, own)]


def warnings_of(job: Job) -> list[str]:
    """Warnings of what the job leaves open, for any strategy."""
    return [sentence for sentence in (doubt_of_lengths(job),) if sentence is not None]
