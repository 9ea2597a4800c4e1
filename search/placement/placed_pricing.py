"""Prices rows of the lattice under the best placement of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import IntColumn, StrategyBatch, concatenate
from cost_models.step.priced_groups import PricedBatch
from cost_models.step.result import Estimate
from search.placement.placer import Placed


class Pricer(Protocol):
    """Prices a batch, as ``cost_models.step.composition.estimate_priced``."""

    def __call__(self, priced: PricedBatch, *, memory: bool = True) -> Estimate:
        """Step times with their bounds, and bytes unless they are known."""
        ...


@dataclass
class PricedRows:
    """Legal strategies ``[n]`` that fit, each under a candidate placement, with their prices.

    ``origin`` is the index of the chunk's row from which each form is made.
    """

    batch: StrategyBatch
    origin: IntColumn
    step_time_s: Floats
    bound_s: Floats
    peak_memory_bytes: Floats

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> PricedRows:
        """The chosen rows."""
        return PricedRows(self.batch.take(rows), *(getattr(self, name)[rows] for name in _NUMBERS))


_NUMBERS = tuple(each.name for each in fields(PricedRows) if each.name != "batch")


def joined_rows(parts: Sequence[PricedRows]) -> PricedRows:
    """The rows of all parts."""
    numbers = (np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS)
    return PricedRows(concatenate([part.batch for part in parts]), *numbers)


def priced_rows(placed: Placed, origin: IntColumn, price: Pricer) -> PricedRows | None:
    """Rows that have been placed, priced; ``origin`` are the rows of the chunk. ``None`` where nothing fits."""
    if not len(placed.origin):
        return None
    found = price(placed.priced, memory=False)
    seconds = found.step_time_s, found.step_time_lower_bound_s
    return PricedRows(placed.priced.batch, origin[placed.origin], *seconds, placed.peak_bytes)
