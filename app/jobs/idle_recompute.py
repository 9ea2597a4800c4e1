"""Recompute that a job asks for and that changes nothing in its layers."""

from __future__ import annotations

from dataclasses import replace

from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload


def without_idle_modules(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy without recompute modules that no layer of the model repeats; warnings name them."""
    kept = strategy.recompute_modules & ~idle_modules(workload, strategy.features)
    if kept == strategy.recompute_modules:
        return strategy
    is_nothing = strategy.recompute is Recompute.SELECTIVE and not kept
    return replace(strategy, recompute_modules=kept, recompute=Recompute.NONE if is_nothing else strategy.recompute)
