"""Every contiguous placement of a model's layers over the virtual stages of a plan, priced one by one: no solver, no bound.

Only what users see of the product is asked: what a placement takes in closed form, what it holds, what it takes when played.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from frameworks.legality import legal_mask

MAX_PLACEMENTS = 20_000


def layouts(num_layers: int, pp: int, vpp: int, *, least: int = 0, most: int | None = None) -> Iterator[LayerLayout]:
    """All of them, ``[chunk][stage]``; each virtual stage holds ``least`` to ``most`` layers."""
    free = num_layers - least * pp * vpp
    for cuts in combinations_with_replacement(range(free + 1), pp * vpp - 1):
        counts = tuple(least + end - begin for begin, end in pairwise((0, *cuts, free)))
        if most is None or max(counts) <= most:
            yield tuple(counts[chunk * pp : (chunk + 1) * pp] for chunk in range(vpp))


@dataclass(frozen=True)
class Placements:
    """What each of ``strategies`` takes, ``[n]``; they differ in where the parts of the model are."""

    strategies: tuple[ParallelStrategy, ...]
    closed_form_s: Any
    simulated_s: Any
    rank_s: Any  # [n, rank], of one micro batch
    fits: Any

    @property
    def bottleneck_s(self) -> Any:
        """What the slowest rank takes for one micro batch, ``[n]``."""
        return self.rank_s.max(axis=1)

    def least(self, column: Any) -> int:
        """Where a column is least among those that fit; raises ``ValueError`` where none does."""
        if not self.fits.any():
            raise ValueError("no placement fits")
        return int(np.argmin(np.where(self.fits, column, np.inf)))

    @property
    def least_closed_form(self) -> ParallelStrategy:
        return self.strategies[self.least(self.closed_form_s)]

    @property
    def least_bottleneck(self) -> ParallelStrategy:
        return self.strategies[self.least(self.bottleneck_s)]

    @property
    def least_simulated(self) -> ParallelStrategy:
        return self.strategies[self.least(self.simulated_s)]


def placements(
    workload: Workload,
    constants: Constants,
    plans: Sequence[ParallelStrategy],
    *,
    least: int = 0,
    most: int | None = None,
    fitting_bytes: float | None = None,
) -> Placements:
    """Every placement that the job's target takes, of plans which may differ in where the rest of the model is.

    ``fitting_bytes`` replaces the memory of a device.
    """
    tried = [
        replace(plan, layer_layout=layout)
        for plan in plans
        for layout in layouts(workload.model.num_layers, plan.pp, plan.vpp, least=least, most=most)
    ]
    if not 0 < len(tried) <= MAX_PLACEMENTS:
        raise ValueError(f"{len(tried)} placements; 1 to {MAX_PLACEMENTS} can be tried")
    strategies = [tried[row] for row in np.flatnonzero(legal_mask(workload, StrategyBatch.of(tried)))]
    if not strategies:
        raise ValueError(f"{workload.software.target} takes no placement of these plans")
    batch = StrategyBatch.of(strategies)
    priced, played = estimate(workload, batch, constants, breakdown=True), simulate(workload, batch, constants)
    assert priced.stage_time_s is not None
    limit = priced.memory_limit_bytes if fitting_bytes is None else fitting_bytes
    return Placements(
        tuple(strategies), priced.step_time_s, played.step_time_s, priced.stage_time_s.T, played.peak_memory_bytes <= limit
    )
