"""Usual switches that a framework leaves off in some plans, whatever the plan says: it has no such kernel there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.rule import Mask


@dataclass(frozen=True)
class Unset:
    """``rows`` are the strategies in which ``feature`` stays off, ``[n]``; ``why`` names the missing kernel."""

    feature: Feature
    rows: Callable[[Workload, StrategyBatch], Mask]
    why: str
