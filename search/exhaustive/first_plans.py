"""Good plans of the first pipelines, or of all for a long list, found before the enumeration.

Its first chunks must beat their times already.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import StrategyBatch, concatenate
from cost_models.step.composition import peaks
from cost_models.step.placing import least_step_times_s, work
from cost_models.step.priced_groups import priced_by
from search.exhaustive.chunk_pipeline import ChunkPricing
from search.exhaustive.open_candidates import first_of_each, simulated_rows
from search.placement.placed_pricing import joined_rows, priced_rows
from search.plans.estimator import Estimator
from search.ranking.leaderboard import Scored
from search.space.enumeration import Rejections, charge_illegal
from search.space.memory_saving_forms import least_memory_form

MOST_PIPELINES = 6  # chunks that are looked at for a short list; twice as many cost more than their better plans save
# Places of a list from which all chunks are looked at: a few chunks have too few structures, and a search that is cut then lists
# them all.
LONG = 256
STRIDE = 7  # one row in so many is looked at; odd, so that options of two values are both seen
OF_ONE_STRUCTURE = 2  # rows of a structure in a chunk
SPARE = 60  # structures beyond the places that are simulated, since the closed form may rank them otherwise


def first_plans(batches: Iterable[StrategyBatch], pricing: ChunkPricing, simulator: Estimator, places: int) -> Scored | None:
    """The best rows of ``places`` structures, one of each, in simulated time; ``None`` where fewer are found.

    ``batches`` are legal rows of the lattice, placed as in ``ChunkPricing``; of rows that do not fit, the leanest form is looked
    at. So the slowest of these rows is not faster than the last of the best ``places`` structures. They have negative ordinals,
    from -1 downwards.
    """
    parts = []
    for batch in batches:
        few = _forms_that_fit(batch.take(np.arange(0, len(batch), STRIDE)), pricing)
        if few is None:
            continue
        priced = priced_by(pricing.prices, few)
        order = np.argsort(least_step_times_s(priced, work(priced), exchanges=False).closed_form_s, kind="stable")
        chosen = order[first_of_each(priced.batch.take(order), OF_ONE_STRUCTURE)]
        rows = priced_rows(pricing.placer.fastest_that_fit(priced.take(chosen)), chosen, pricing.price)
        if rows is not None:
            parts.append(rows)
    if not parts:
        return None
    found = joined_rows(parts)
    order = np.argsort(found.step_time_s, kind="stable")
    order = order[first_of_each(found.batch.take(order), 1)][: places + SPARE]
    if len(order) < places:
        return None
    scored = Scored(found.batch, found.step_time_s, found.peak_memory_bytes, -1 - np.arange(len(found.batch))).take(order)
    scored = simulated_rows(scored, simulator, pricing.prices)
    return scored.take(np.argsort(scored.step_time_s, kind="stable")[:places])


def _forms_that_fit(batch: StrategyBatch, pricing: ChunkPricing) -> StrategyBatch | None:
    """The rows that fit under the default placement, and of the others their leanest forms that do; ``None`` without any."""

    def fits(rows: StrategyBatch) -> NDArray[np.bool_]:
        peak_bytes = peaks(priced_by(pricing.prices, rows), pricing.fit_limit_bytes).peak_bytes
        are_small: NDArray[np.bool_] = peak_bytes <= pricing.fit_limit_bytes
        return are_small

    fitting = fits(batch)
    parts = [batch.take(fitting)]
    if pricing.space.leaner and not fitting.all():
        forms = least_memory_form(pricing.workload, batch.take(~fitting), pricing.space.leaner)
        forms = charge_illegal(pricing.workload, forms, pricing.rules, Rejections())
        parts += [forms.take(fits(forms))] if len(forms) else []
    found = concatenate(parts)
    return found if len(found) else None
