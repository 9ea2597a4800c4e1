"""Memory-saving forms: a strategy that does not fit, with switches turned to the side that saves memory for time.

Such a switch never saves time. So forms are tried only for strategies that do not fit: any other is at least as fast as its
forms.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes import effective_switches
from cost_models.shapes.record_copies import varied
from cost_models.shapes.strategy import IntColumn, StrategyBatch, concatenate
from cost_models.shapes.switches import SWITCHES, Feature, InSearch, treated
from cost_models.shapes.workload import Workload
from frameworks.accepted_switches import rivals
from frameworks.fixed import Fixed
from frameworks.registry import fixed_by

LEAN_ON = treated(InSearch.LEAN_ON)


def memory_saving_forms(workload: Workload, batch: StrategyBatch, switches: Feature) -> tuple[StrategyBatch, IntColumn] | None:
    """Every form of every row, and the row that each comes from; ``None`` without any.

    A form turns a combination of ``switches``, each of which acts, is not on its memory-saving side yet, and stays turned in the
    target. Of switches that replace the same thing, one is on.
    """
    batches, origins = [], []
    for chosen in _combinations(switches):
        rows = np.flatnonzero(all_change(workload, batch, chosen))
        if len(rows):
            taken = batch.take(rows)
            batches.append(varied(taken, features=taken.features ^ int(chosen)))
            origins.append(rows)
    return (concatenate(batches), np.concatenate(origins)) if batches else None


def least_memory_form(workload: Workload, batch: StrategyBatch, switches: Feature) -> StrategyBatch:
    """Each row with as many of ``switches`` turned as change it.

    No other form needs less memory, except the one without ``swap_attention``. The layer in progress holds the bytes that come
    back from the host, which may exceed the savings of few layers.
    """
    features, is_open = batch.features, np.ones(len(batch), dtype=np.bool_)
    for chosen in reversed(_combinations(switches)):
        rows = is_open & all_change(workload, batch, chosen)
        features = np.where(rows, batch.features ^ int(chosen), features)
        is_open &= ~rows
        if not is_open.any():  # usually the first few are enough
            break
    return varied(batch, features=features)


@lru_cache(maxsize=64)
def _combinations(switches: Feature) -> tuple[Feature, ...]:
    """Combinations of at least one switch, the smaller ones first."""
    among = [feature for feature in SWITCHES if feature in switches]
    every = [Feature(sum(chosen)) for number in range(1, len(among) + 1) for chosen in combinations(among, number)]
    return tuple(chosen for chosen in every if not any(rivals(feature) & chosen & LEAN_ON for feature in chosen & LEAN_ON))


@lru_cache(maxsize=1024)
def _before(chosen: Feature) -> tuple[int, int]:
    """The bits of these switches and of their rivals, and their values in a row that all switches can change."""
    on = chosen & LEAN_ON
    others = sum({int(rival) for feature in on for rival in rivals(feature) & ~chosen})
    return int(chosen) | others, int(chosen & ~on)


@lru_cache(maxsize=1024)
def _fixed_among(target: str, chosen: Feature) -> tuple[Fixed, ...]:
    """What the target may set back of these switches."""
    return tuple(each for each in fixed_by(target) if each.feature in chosen)


def all_change(workload: Workload, batch: StrategyBatch, chosen: Feature) -> NDArray[np.bool_]:
    """Rows that each of the switches changes when it is turned to its memory-saving side, in the target too."""
    bits, (read, standing) = int(chosen), _before(chosen)
    changes: NDArray[np.bool_] = (batch.features & read) == standing
    if changes.any():  # usually none does
        turned = varied(batch, features=batch.features | bits)
        changes &= effective_switches.acting(workload.model, turned, chosen) == bits
        for each in _fixed_among(workload.software.target, chosen):
            changes &= ~each.changes(workload, varied(batch, features=batch.features ^ bits))
    return changes
