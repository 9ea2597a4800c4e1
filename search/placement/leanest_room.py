"""Decides whether any memory-saving form of a strategy fits; checks the forms that need least memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import StrategyBatch, concatenate
from cost_models.shapes.switches import Feature
from cost_models.step.priced_groups import PricedBatch
from search.placement.placer import Placer
from search.space.memory_saving_forms import least_memory_form


def can_be_lean(
    placer: Placer,
    batch: StrategyBatch,
    switches: Feature,
    priced: Callable[[StrategyBatch], PricedBatch],
    limit_bytes: float,
) -> NDArray[np.bool_]:
    """Whether the leanest forms of rows have room under some placement of the rows. ``[n]``

    No other form of a row needs less memory anywhere, so that none has room where these have none.
    """
    leanest = partial(least_memory_form, placer.workload, batch)
    most, unswapped = leanest(switches), leanest(switches & ~Feature.SWAP_ATTENTION)
    others = np.flatnonzero(unswapped.features != most.features)
    both = concatenate([most, unswapped.take(others)])  # once for both: few rows cost little more than one
    like = priced(batch).take(np.concatenate([np.arange(len(batch)), others]))
    has_room = placer.has_room(priced(both), like, limit_bytes)
    found = has_room[: len(batch)]
    found[others] |= has_room[len(batch) :]
    return found
