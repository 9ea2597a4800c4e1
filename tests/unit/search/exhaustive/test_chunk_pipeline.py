"""What is ruled out first in a chunk depends on the chunk before; what is found does not."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import islice

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import MemoryRoom, Workload
from cost_models.step.composition import estimate, estimate_priced
from search.exhaustive import chunk_pipeline
from search.exhaustive.chunk_pipeline import ChunkPricing, ChunkRecipe
from search.exhaustive.chunk_queue import ChunkResult
from search.exhaustive.lattice_state import Incumbents
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.search_space import search_space
from tests.search_workloads import MOE, workload

CONSTANTS = prior_constants("ascend")
STRIDE = 5  # one row in so many; odd, so that options of two values are both there


def legal_chunks(job: Workload) -> list[StrategyBatch]:
    found = (
        charge_illegal(job, chunk.batch, option_rules(job), Rejections())
        for chunk in chunks(job, search_space(job), Rejections())
    )
    return [batch.take(np.arange(0, len(batch), STRIDE)) for batch in islice((each for each in found if len(each)), 3)]


def with_room_for(job: Workload, quantile: float) -> Workload:
    """The job on a device in which this fraction of the legal strategies fits."""
    peaks = np.concatenate([estimate(job, batch, CONSTANTS).peak_memory_bytes for batch in legal_chunks(job)])
    rule = fit_rule(job, CONSTANTS)
    room_bytes = float(np.quantile(peaks, quantile)) * rule.room_bytes / rule.fit_limit_bytes
    return replace(job, room=MemoryRoom(rule.memory_limit_bytes - room_bytes))


def pricing_of(job: Workload) -> ChunkPricing:
    return ChunkPricing(ChunkRecipe(job, search_space(job), CONSTANTS, True, estimate_priced, None))


def numbers(result: ChunkResult) -> tuple[object, ...]:
    rows = result.rows
    columns = [] if rows is None else [getattr(rows, each.name).tolist() for each in fields(rows) if each.name != "batch"]
    strategies = [] if rows is None else [rows.batch.row(row) for row in range(len(rows.batch))]
    return result.legal, result.ruled_out, result.fits, result.enumerated, result.leanest, columns, strategies


def test_a_chunk_has_the_same_result_after_one_of_which_nothing_fits() -> None:
    job = with_room_for(workload(replace(MOE, num_layers=8), num_devices=8, global_batch_size=32), 0.1)
    batches = legal_chunks(job)
    pricing = pricing_of(job)
    whole = [pricing_of(job).found_in(each, Incumbents()) for each in batches]
    placed = [rows for each in whole if (rows := each.rows) is not None]
    assert placed
    misfits = batches[0].take(np.setdiff1d(np.arange(len(batches[0])), [] if whole[0].rows is None else whole[0].rows.origin))
    for to_beat_s in (float("inf"), float(np.quantile(np.concatenate([rows.step_time_s for rows in placed]), 0.2))):
        for batch in batches:
            nothing = pricing.found_in(misfits.take(np.arange(0, len(misfits), 20)), Incumbents())
            assert nothing.legal > 0 == nothing.fits
            after = pricing.found_in(batch, Incumbents(to_beat_s))
            assert numbers(after) == numbers(pricing_of(job).found_in(batch, Incumbents(to_beat_s)))


def test_a_chunk_has_the_same_result_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    job = with_room_for(workload(replace(MOE, num_layers=8), num_devices=8, global_batch_size=32), 0.1)
    batch = legal_chunks(job)[0]
    whole = pricing_of(job).found_in(batch, Incumbents())
    assert whole.rows is not None
    monkeypatch.setattr(chunk_pipeline, "AT_ONCE", whole.enumerated // 6)
    assert numbers(pricing_of(job).found_in(batch, Incumbents())) == numbers(whole)
