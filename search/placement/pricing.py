"""Prices rows of the lattice with every layer where it does best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.strategy import IntColumn, LayerLayout, StrategyBatch, concatenate
from cost_models.step.composition import peak_memory_bytes
from cost_models.step.placing import Least, ToBeat, least_step_times_s, work
from cost_models.step.priced_groups import PricedBatch, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from search.placement.placer import Placer
from search.ranking import STRUCTURE

MOST_OVERFULL = 1.5  # times what fits, under the default: nothing of comparable pace frees the fullest rank of more


Pricer = Callable[[PricedBatch], Estimate]


@dataclass
class PricedRows:
    """Legal strategies ``[n]`` with their placements, and what they cost under them.

    ``origin`` is the row of the chunk that each is a form of.
    """

    batch: StrategyBatch
    origin: IntColumn
    step_time_s: Floats
    bound_s: Floats
    peak_memory_bytes: Floats
    fits: NDArray[np.bool_]

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> PricedRows:
        """The chosen rows."""
        return PricedRows(self.batch.take(rows), *(getattr(self, name)[rows] for name in _NUMBERS))

    def place(self, rows: IntColumn, batch: StrategyBatch, priced: Estimate) -> None:
        """Put other placements, priced, in the place of those that some rows have."""
        layouts: dict[LayerLayout, int] = {layout: number for number, layout in enumerate(self.batch.layouts)}
        numbers = np.array([*(layouts.setdefault(layout, len(layouts)) for layout in batch.layouts), -1], dtype=np.int64)
        index, before = self.batch.layout_index.copy(), self.batch.mtp_before_head.copy()
        index[rows], before[rows] = numbers[batch.layout_index], batch.mtp_before_head
        self.batch = replace(self.batch, layout_index=index, mtp_before_head=before, layouts=tuple(layouts))
        self.step_time_s[rows] = priced.step_time_s
        self.bound_s[rows] = priced.step_time_lower_bound_s
        self.peak_memory_bytes[rows] = priced.peak_memory_bytes
        self.fits[rows] = priced.fits


_NUMBERS = ("origin", "step_time_s", "bound_s", "peak_memory_bytes", "fits")


def joined_rows(parts: Sequence[PricedRows]) -> PricedRows:
    """The rows of all parts."""
    numbers = (np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS)
    return PricedRows(concatenate([part.batch for part in parts]), *numbers)


def placed_rows(
    prices: LayerPrices,
    placer: Placer,
    batch: StrategyBatch,
    origin: IntColumn,
    price: Pricer,
    to_beat: Callable[[PricedRows | None], ToBeat],
) -> PricedRows:
    """Rows of the lattice, each under the placement of the best pace that has room.

    All are priced as they are given first, but for structures of which nothing matters beside what was found before (``to_beat``
    of nothing): these take for ever, and only their memory is counted. ``to_beat`` says, of what that gave, which rows need no
    placement of their own; they stay.
    """
    usual = priced_by(prices, batch)
    least = least_step_times_s(usual, work(usual))
    rows = _as_given(usual, origin, price, _of_structures(batch, least.matters(to_beat(None))))
    rows.fits &= placer.takes_as_placed(usual)
    limits, fit_limit_bytes = to_beat(rows), fit_rule(prices.workload, prices.constants).fit_limit_bytes
    near = rows.peak_memory_bytes <= MOST_OVERFULL * fit_limit_bytes
    places = np.flatnonzero(near & (batch.pp > 1) & least.matters(limits))
    if not len(places):
        return rows
    placed = placer.fastest(usual.take(places), limits)
    taken = np.flatnonzero(placed.compared)
    if not len(taken):
        return rows
    chosen = placed.priced.take(taken)
    found = price(chosen)
    rows.place(places[taken], chosen.batch, found)
    cramped = np.zeros(len(places), dtype=np.bool_)
    cramped[taken] = ~found.fits & Least(found.step_time_lower_bound_s, found.step_time_s).matters(limits)
    moved = placer.fastest_that_fit(placed, cramped, limits)
    taken = np.flatnonzero(moved.compared)
    if len(taken):
        chosen = moved.priced.take(taken)
        rows.place(places[taken], chosen.batch, price(chosen))
    return rows


def _of_structures(batch: StrategyBatch, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of a structure of which there is ``some`` row, or of one that goes on in the chunks before and behind.

    Plans that are listed show others of their structure, which need not be good.
    """
    _, structure = distinct_rows([getattr(batch, name) for name in STRUCTURE])
    chosen = np.unique(np.concatenate([structure[some], structure[[0, -1]]]))
    return np.isin(structure, chosen)


def _as_given(usual: PricedBatch, origin: IntColumn, price: Pricer, chosen: NDArray[np.bool_]) -> PricedRows:
    """What the ``chosen`` rows cost as they are placed; the others have their memory counted, and take for ever."""
    n, rule = len(usual.batch), fit_rule(usual.workload, usual.constants)
    step_s, bound_s, peak = np.full(n, np.inf), np.full(n, np.inf), np.empty(n)
    if chosen.any():
        priced = price(usual if chosen.all() else usual.take(chosen))
        step_s[chosen], bound_s[chosen] = priced.step_time_s, priced.step_time_lower_bound_s
        peak[chosen] = priced.peak_memory_bytes
    if not chosen.all():
        peak[~chosen] = peak_memory_bytes(usual.take(~chosen))
    return PricedRows(usual.batch, origin, step_s, bound_s, peak, peak <= rule.fit_limit_bytes)
