"""Intervals of a job in 8 bits that does not say how operands are scaled: they hold for every recipe that the devices run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.numbers import numbers_of
from app.jobs.precision import leaves_recipe_open
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from search.plans.plan import estimates_to_mappings

ByRecipe = tuple[dict[str, Any], ...]  # estimates of one strategy: without a recipe, then with each; empty if the job states one


def with_open_recipe(numbers: dict[str, Any], found: ByRecipe) -> None:
    """Widen the intervals of an estimate; it fits only if it does with every recipe.

    The price itself stays that of 8 bits without scales. Recipes change a step time by what they change in closed form.
    """
    if found:
        _widen(numbers, found)
        peak = numbers["peak_memory_bytes"]
        numbers["fits_probability"] = min(each["fits_probability"] for each in found)
        numbers["fit_limit_bytes"] = min(each["fit_limit_bytes"] - (each["peak_memory_bytes"] - peak) for each in found)
        numbers["fits"] = all(each["fits"] for each in found)


def with_open_recipe_of_plans(
    workload: Workload, document: dict[str, Any], strategies: Sequence[ParallelStrategy], own: Sequence[Calibration]
) -> list[str]:
    """Widen the intervals of a search's plans, and return a warning if one that fits by its price may not with some recipe."""
    doubted = []
    for plan, found in zip(document["plans"], by_recipe(workload, strategies, own), strict=True):
        if found:
            _widen(plan["estimate"], found)
            doubted += [plan["rank"]] * (not all(each["fits"] for each in found))
    if not doubted:
        return []
    recipes, ranks = joined(", ", workload.device_traits.fp8_recipes), joined(", ", map(str, doubted))
    return [Sentence("training.fp8_recipe is not stated ({}): with some of them, these plans do not fit: {}.", recipes, ranks)]


def by_recipe(workload: Workload, strategies: Sequence[ParallelStrategy], own: Sequence[Calibration]) -> list[ByRecipe]:
    """The estimates of each strategy, priced together."""
    if not leaves_recipe_open(workload) or not strategies:
        return [()] * len(strategies)
    batch, columns = StrategyBatch.of(strategies), []
    for recipe in (None, *workload.device_traits.fp8_recipes):
        stated = replace(workload, training=replace(workload.training, fp8_recipe=recipe))
        with np.errstate(all="ignore"):
            columns.append(estimates_to_mappings(stated, numbers_of(stated, batch, own)))
    return list(zip(*columns, strict=True))


def _widen(numbers: dict[str, Any], found: ByRecipe) -> None:
    times = [each["step_time_s"] / found[0]["step_time_s"] for each in found]
    for end, widest in (("low", min), ("high", max)):
        if numbers[f"step_time_{end}_s"] is not None:
            numbers[f"step_time_{end}_s"] *= widest(times)
        numbers[f"peak_memory_{end}_bytes"] = widest(each[f"peak_memory_{end}_bytes"] for each in found)
