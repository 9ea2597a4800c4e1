"""Prices rows of the lattice under the best placement of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.fit import fit_rule
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, LayerLayout, StrategyBatch, concatenate
from cost_models.step.composition import peaks
from cost_models.step.placing import Least
from cost_models.step.priced_groups import PricedBatch, priced_by
from cost_models.step.priced_keys import LayerPrices
from cost_models.step.result import Estimate
from search.placement.placer import Placer

MOST_OVERFULL = (
    1.5  # times the limit, under the default placement: no placement of comparable pace frees the fullest rank of more
)


class Pricer(Protocol):
    """Prices a batch, as ``cost_models.step.composition.estimate_priced``."""

    def __call__(self, priced: PricedBatch, *, memory: bool = True) -> Estimate:
        """Step times with their bounds, and bytes unless they are known."""
        ...


@dataclass
class PricedRows:
    """Legal strategies ``[n]`` with their placements and prices.

    ``origin`` is the row of the chunk that each is a form of. ``timed`` rows have a known time. The others do not fit; their
    ``step_time_s`` and ``bound_s`` are lower bounds. ``kept_bytes`` is a lower bound on the memory of their memory-saving forms.
    """

    batch: StrategyBatch
    origin: IntColumn
    step_time_s: Floats
    bound_s: Floats
    peak_memory_bytes: Floats
    kept_bytes: Floats
    fits: NDArray[np.bool_]
    timed: NDArray[np.bool_]

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> PricedRows:
        """The chosen rows."""
        return PricedRows(self.batch.take(rows), *(getattr(self, name)[rows] for name in _NUMBERS))

    def place(self, rows: IntColumn, batch: StrategyBatch, priced: Estimate) -> None:
        """Replace the placements and prices of some rows."""
        layouts: dict[LayerLayout, int] = {layout: number for number, layout in enumerate(self.batch.layouts)}
        numbers = np.array([*(layouts.setdefault(layout, len(layouts)) for layout in batch.layouts), -1], dtype=np.int64)
        index, before = self.batch.layout_index.copy(), self.batch.mtp_before_head.copy()
        index[rows], before[rows] = numbers[batch.layout_index], batch.mtp_before_head
        self.batch = varied(self.batch, layout_index=index, mtp_before_head=before, layouts=tuple(layouts))
        self.step_time_s[rows] = priced.step_time_s
        self.bound_s[rows] = priced.step_time_lower_bound_s
        self.peak_memory_bytes[rows] = priced.peak_memory_bytes
        self.fits[rows] = priced.fits
        self.timed[rows] = True

    def rule_out(self, rows: IntColumn) -> None:
        """Note that some rows are too slow under any placement."""
        self.bound_s[rows], self.fits[rows] = np.inf, False

    @property
    def ruled_out(self) -> NDArray[np.bool_]:
        """Those rows."""
        return np.isinf(self.bound_s)

    def time(self, rows: IntColumn, prices: LayerPrices, price: Pricer) -> None:
        """Price the step times of some rows."""
        if len(rows):
            priced = price(priced_by(prices, self.batch.take(rows)), memory=False)
            self.step_time_s[rows], self.bound_s[rows] = priced.step_time_s, priced.step_time_lower_bound_s
            self.timed[rows] = True


_NUMBERS = ("origin", "step_time_s", "bound_s", "peak_memory_bytes", "kept_bytes", "fits", "timed")


def joined_rows(parts: Sequence[PricedRows]) -> PricedRows:
    """The rows of all parts."""
    numbers = (np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS)
    return PricedRows(concatenate([part.batch for part in parts]), *numbers)


def placed_rows(
    prices: LayerPrices,
    placer: Placer,
    usual: PricedBatch,
    origin: IntColumn,
    least: Least,
    price: Pricer,
    to_beat_s: float = float("inf"),
    leanest_bytes: float = float("inf"),
) -> PricedRows:
    """Rows of the lattice, each under the fastest placement that has room.

    ``least`` is their lower bound under any placement. The memory of every row is counted under its first placement. A peak need
    not be exact if it is neither near the limit nor below ``leanest_bytes``, the least so far. Rows that take ``to_beat_s`` or
    more under the fastest placement are ruled out.
    """
    fit_limit_bytes = fit_rule(prices.workload, prices.constants).fit_limit_bytes
    near_bytes = MOST_OVERFULL * fit_limit_bytes
    peak, kept = peaks(usual, max(near_bytes, leanest_bytes))
    fits = (peak <= fit_limit_bytes) & placer.takes_as_placed(usual)
    rows = PricedRows(usual.batch, origin, least.closed_form_s, least.step_s, peak, kept, fits, np.zeros_like(fits))
    alone = usual.batch.pp == 1
    rows.time(np.flatnonzero(rows.fits & alone), prices, price)
    places = np.flatnonzero((peak <= near_bytes) & ~alone)
    if not len(places):
        return rows
    placed = placer.fastest(usual.take(places), to_beat_s)
    rows.rule_out(places[~placed.compared])
    taken = np.flatnonzero(placed.compared)
    if not len(taken):
        return rows
    chosen = placed.priced.take(taken)
    found = price(chosen)
    rows.place(places[taken], chosen.batch, found)
    cramped = np.zeros(len(places), dtype=np.bool_)
    cramped[taken] = ~found.fits & (found.step_time_lower_bound_s < to_beat_s)
    moved = placer.fastest_that_fit(placed, cramped, to_beat_s)
    taken = np.flatnonzero(moved.compared)
    if len(taken):
        chosen = moved.priced.take(taken)
        rows.place(places[taken], chosen.batch, price(chosen))
    return rows
