"""The least recompute with which every rank fits, by rank or by virtual stage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.step.composition import peaks
from cost_models.step.group_memory import group_memory
from cost_models.step.priced_groups import priced_by
from cost_models.step.priced_keys import LayerPrices


def least_by_rank(prices: LayerPrices, strategy: ParallelStrategy) -> ParallelStrategy | None:
    """The strategy with as few layers of each rank recomputed as fit; ``None`` where not even all are enough.

    Modules that the strategy recomputes are recomputed in the other layers. The memory of a rank depends on its own number alone.
    So the least of each rank is found from plans with the same number on all ranks.
    """
    most = _most_layers(prices, strategy)
    plans = [_by_rank(strategy, (number,) * strategy.pp) for number in range(most + 1)]
    peak_bytes = _rank_peaks(prices, plans)
    fits = peak_bytes <= fit_rule(prices.workload, prices.constants).fit_limit_bytes
    if not fits.any(axis=0).all():
        return None
    least = fits.argmax(axis=0)
    return _by_rank(strategy, tuple(int(number) for number in least)) if least.any() else _without_layers(strategy)


def least_block(prices: LayerPrices, strategy: ParallelStrategy) -> ParallelStrategy | None:
    """The strategy with as few first layers of every virtual stage recomputed as fit; ``None`` where not all are enough."""
    most = max(map(max, strategy.layer_layout or _usual(prices, strategy)))
    plain = replace(strategy, recompute_modules=type(strategy.recompute_modules)(0))
    blocks = [
        replace(plain, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=number)
        for number in range(1, most)
    ]
    forms = [_without_layers(plain), *blocks]
    limit_bytes = fit_rule(prices.workload, prices.constants).fit_limit_bytes
    fits = peaks(priced_by(prices, StrategyBatch.of(forms)), limit_bytes).peak_bytes <= limit_bytes
    return forms[int(fits.argmax())] if fits.any() else None


def _usual(prices: LayerPrices, strategy: ParallelStrategy) -> tuple[tuple[int, ...], ...]:
    return default_layout(prices.workload.model, strategy.pp, strategy.vpp, strategy.schedule)


def _most_layers(prices: LayerPrices, strategy: ParallelStrategy) -> int:
    """Upper bound on the layers of a rank. Where a rank has both ends of the model or two stages, it is that of two ranks."""
    layout = strategy.layer_layout or _usual(prices, strategy)
    most = max(map(sum, zip(*layout, strict=True)))
    return min((2 if strategy.schedule.rules.ends_meet else 1) * most, prices.workload.model.num_layers)


def _by_rank(strategy: ParallelStrategy, layers: tuple[int, ...]) -> ParallelStrategy:
    return replace(
        strategy,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_layers_per_stage=layers,
    )


def _without_layers(strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy with its modules alone, if there are any."""
    return replace(
        strategy,
        recompute=Recompute.SELECTIVE if strategy.recompute_modules else Recompute.NONE,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_layers_per_stage=None,
    )


def _rank_peaks(prices: LayerPrices, plans: list[ParallelStrategy]) -> Floats:
    """Peak of every rank under each plan of one pipeline, ``[plan, rank]``, bytes."""
    found = np.empty((len(plans), plans[0].pp))
    priced = priced_by(prices, StrategyBatch.of(plans))
    for rows, group in priced.groups(merge=False, tables=False):
        memory = group_memory(prices.workload, group, prices.constants, breakdown=False)
        found[rows] = memory.peak.T
    return found
