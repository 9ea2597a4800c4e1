"""The share of expert communication that a steady step hides, as publications state it."""

from __future__ import annotations

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.priced_groups import priced_groups


def steady_masked_fraction(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> float | None:
    """Share of dispatch and combine of a MoE layer, both passes, that is hidden where every pass has a partner.

    Between warm-up and cool-down each forward runs beside a backward: in merged pairs their communication hides behind the
    compute of both, otherwise only behind that of its own pass. The whole step hides less, since warm-up and cool-down have no
    partners. ``None`` without expert communication [pangu-ultra-moe-2].
    """
    if workload.model.moe is None:
        return None
    ((_, group),) = priced_groups(workload, StrategyBatch.of([strategy]), constants, merge=False, tables=True)
    kind = max(range(len(group.stages.layer_kinds)), key=group.stages.layer_kinds.__getitem__)  # a MoE layer's
    layer, savings = group.priced.layers[kind], group.priced.savings
    exposed_s = float((layer.forward["ep_comm"] + layer.backward["ep_comm"])[0])
    total_s = exposed_s + float(layer.masked["ep_comm"][0])
    if total_s <= 0.0:
        return None
    saved = None if savings is None else savings.by_kinds[kind][kind]
    if saved is not None:  # what a pair saves is less than what it hides by the compute that this slows down
        exposed_s -= float(saved[0]) / (1.0 - constants.hidden_stretch_fraction)
    return min(max(1.0 - exposed_s / total_s, 0.0), 1.0)
