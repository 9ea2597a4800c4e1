"""One layer moved between neighbouring virtual stages."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.canonical import canonical
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload


def neighbouring_moves(workload: Workload, plan: ParallelStrategy) -> dict[ParallelStrategy, str]:
    """The plan with one layer moved to a virtual stage next to its own, and what each move is; legal or not."""
    layout = plan.layer_layout or default_layout(workload.model, plan.pp, plan.vpp, plan.schedule)
    counts = [layers for row in layout for layers in row]
    found = {}
    for giver, layers in enumerate(counts):
        for taker in (giver - 1, giver + 1):
            if layers and 0 <= taker < len(counts):
                after = list(counts)
                after[giver] -= 1
                after[taker] += 1
                rows = tuple(tuple(after[first : first + plan.pp]) for first in range(0, len(after), plan.pp))
                moved = canonical(workload, replace(plan, layer_layout=rows))
                found[moved] = f"a layer moved from virtual stage {giver + 1} to {taker + 1} of {len(counts)}"
    return found
