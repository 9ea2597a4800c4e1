"""Switches that a framework sets by itself in some plans, whatever the plan says: it has no other kernel, or no such switch."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from frameworks.rule import Mask, has_effect


@dataclass(frozen=True)
class Fixed:
    """``rows`` are the strategies in which ``feature`` stays off, or with ``on`` is always on, ``[n]``; ``why``: the reason."""

    feature: Feature
    rows: Callable[[Workload, StrategyBatch], Mask]
    why: str
    on: bool = False

    def changes(self, workload: Workload, batch: StrategyBatch) -> Mask:
        """Strategies that say otherwise of a switch that acts in them. ``[n]``"""
        with_it = varied(batch, features=batch.features | int(self.feature))
        acts = self.rows(workload, batch) & has_effect(workload, with_it, self.feature)
        changed: Mask = acts & (batch.has(self.feature) != self.on)
        return changed
