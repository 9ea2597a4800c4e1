"""Moves single layers of a plan while that shortens its simulated step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cost_models.shapes.strategy import ParallelStrategy, Placement, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import peaks
from cost_models.step.placing import Alternatives, fitting, least_step_times_s, lower_bounds_s, paces, work
from cost_models.step.priced_groups import priced_by
from cost_models.step.priced_keys import LayerPrices
from frameworks.rule import layout_of
from search.placement.placement_family import in_chunks
from search.placement.placer import Placer
from search.plans.estimator import Estimator
from search.ranking.leaderboard import RankedStrategy

LEAST_GAIN = 5e-4  # fraction of the step that a move must gain at least
NEAR = 0.2  # fraction of the step by which the closed form exceeds the simulation at most, if virtual stages differ


def climbed(prices: LayerPrices, placer: Placer, simulate: Estimator, plan: RankedStrategy) -> RankedStrategy:
    """The plan after the best moves of single layers to neighbouring stages or of the prediction layers.

    Each step takes the best move that the target can express, that fits, and whose closed form leaves room for a gain. ``plan``
    has its simulated step time.
    """
    workload, constants = prices.workload, prices.constants
    while plan.strategy.pp > 1:
        to_beat_s = plan.step_time_s * (1.0 - LEAST_GAIN)
        batch = _promising(prices, placer, plan.strategy, to_beat_s)
        if batch is None:
            break
        times_s = simulate(workload, batch, constants, memory=False, prices=prices).step_time_s  # all fit
        best = int(times_s.argmin())
        if times_s[best] >= to_beat_s:
            break
        moved = batch.take(np.array([best]))
        peak = float(peaks(priced_by(prices, moved)).peak_bytes[0])
        plan = replace(plan, strategy=moved.row(0), step_time_s=float(times_s[best]), peak_memory_bytes=peak)
    return plan


def _promising(prices: LayerPrices, placer: Placer, strategy: ParallelStrategy, to_beat_s: float) -> StrategyBatch | None:
    """The strategies after each move that may be faster; ``None`` where none may be.

    In closed form such a strategy is hardly slower than before, and some order of tasks might be fast enough.
    """
    workload, priced = prices.workload, priced_by(prices, StrategyBatch.of([strategy]))
    moved = placer.takes(strategy, tuple(_moves(workload, strategy)))
    if not moved:
        return None
    own = Placement(layout_of(workload, strategy), strategy.mtp_before_head)
    stages = Alternatives.of(priced, (own, *moved))
    found = paces(priced, stages)
    step_s, closed_form_s = (each[:, 0] for each in least_step_times_s(priced, work(priced), found.steady_s, found.busiest_s))
    may_be = np.flatnonzero((step_s[1:] < to_beat_s) & (closed_form_s[1:] < (1.0 + NEAR) * closed_form_s[0])) + 1
    if len(may_be):
        alike = np.array([moved[index - 1].mtp_before_head == own.mtp_before_head for index in may_be])
        may_be = may_be[~alike | (lower_bounds_s(priced, stages, may_be)[:, 0] < to_beat_s)]
    if len(may_be):
        may_be = may_be[fitting(priced, stages, may_be)[:, 0]]
    return StrategyBatch.of([replace(strategy, **moved[index - 1]._asdict()) for index in may_be]) if len(may_be) else None


def _moves(workload: Workload, strategy: ParallelStrategy) -> Iterator[Placement]:
    layout, before = layout_of(workload, strategy), strategy.mtp_before_head
    counts = [count for row in layout for count in row]
    for place in range(len(counts) - 1):
        for giver, taker in ((place, place + 1), (place + 1, place)):
            if counts[giver]:
                moved = list(counts)
                moved[giver], moved[taker] = moved[giver] - 1, moved[taker] + 1
                yield Placement(in_chunks(moved, strategy.pp), before)
    if workload.model.mtp_num_layers:
        yield Placement(layout, 1 - min(before, 1))
