"""Plans that a search begins with, where no strategy fits before it saves memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import MemoryRoom, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate, estimate_priced
from frameworks.legality import legal_mask
from search.exhaustive.chunk_pipeline import ChunkPricing, ChunkRecipe
from search.exhaustive.first_plans import first_plans
from search.exhaustive.lattice_search import search
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace, search_space
from tests.search_workloads import MOE, request, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(pp=(1, 2), tp=(1, 2), micro_batch_size=(1,))
PLACES = 2


def legal_batches(job: Workload, space: SearchSpace) -> list[StrategyBatch]:
    found = (charge_illegal(job, chunk.batch, option_rules(job), Rejections()) for chunk in chunks(job, space, Rejections()))
    return [batch for batch in found if len(batch)]


def test_the_first_plans_save_memory_where_nothing_fits_without() -> None:
    job = workload(replace(MOE, num_layers=8), num_devices=8, global_batch_size=32)
    space = search_space(job, LIMITS)
    batches = legal_batches(job, space)
    least_bytes = min(estimate(job, batch, CONSTANTS).peak_memory_bytes.min() for batch in batches)
    rule = fit_rule(job, CONSTANTS)
    room_bytes = 0.98 * least_bytes * rule.room_bytes / rule.fit_limit_bytes
    tight = replace(job, room=MemoryRoom(rule.memory_limit_bytes - room_bytes))
    pricing = ChunkPricing(ChunkRecipe(tight, space, CONSTANTS, True, estimate_priced, None))
    first = first_plans(batches, pricing, simulate, PLACES)
    assert first is not None
    assert len(first) == PLACES
    assert estimate(tight, first.batch, CONSTANTS).fits.all()
    assert legal_mask(tight, first.batch).all()
    assert first.step_time_s == pytest.approx(simulate(tight, first.batch, CONSTANTS).step_time_s, rel=1e-12)
    listed = search(request(tight, space, CONSTANTS, top=PLACES)).plans
    assert len(listed) == PLACES
    assert listed[-1].estimate["step_time_s"] <= np.max(first.step_time_s) * (1 + 1e-9)
