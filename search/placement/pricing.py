"""Prices rows of the lattice with every layer where it does best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, LayerLayout, StrategyBatch, concatenate
from cost_models.step.placing import Least, ToBeat, least_step_times_s, work
from cost_models.step.priced_groups import PricedBatch, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from search.placement.placer import Placer

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
    to_beat: Callable[[PricedRows], ToBeat],
) -> PricedRows:
    """Rows of the lattice, each under the placement of the best pace that has room.

    All are priced as they are given first. ``to_beat`` says, of what that gave, which rows need no placement of their own; they
    stay.
    """
    usual = priced_by(prices, batch)
    priced = price(usual)
    times, fits = (priced.step_time_s, priced.step_time_lower_bound_s), priced.fits & placer.takes_as_placed(usual)
    rows = PricedRows(batch, origin, *times, priced.peak_memory_bytes, fits)
    limits, of_all = to_beat(rows), work(usual)
    near = priced.peak_memory_bytes <= MOST_OVERFULL * priced.fit_rule.fit_limit_bytes
    places = np.flatnonzero(near & (batch.pp > 1) & least_step_times_s(usual, of_all).matters(limits))
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
