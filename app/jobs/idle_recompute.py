"""Recompute that a job asks for and that changes nothing in its layers."""

from __future__ import annotations

from dataclasses import replace

from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload
from frameworks.legality import violations


def without_idle_modules(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy without recompute modules that no layer of the model repeats; warnings name them.

    Modules that a rule refuses stay, so that the refusal names them.
    """
    kept = strategy.recompute_modules & ~idle_modules(workload, strategy.features)
    if kept == strategy.recompute_modules:
        return strategy
    is_nothing = strategy.recompute is Recompute.SELECTIVE and not kept
    found = replace(strategy, recompute_modules=kept, recompute=Recompute.NONE if is_nothing else strategy.recompute)
    return strategy if len(violations(workload, strategy)) > len(violations(workload, found)) else found
