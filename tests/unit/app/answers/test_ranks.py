"""Memory of each pipeline rank in an estimate."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.price import estimate_document
from app.jobs.job import parse_job

JOB: dict[str, Any] = {
    "model": "deepseek-v2-lite",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
    "training": {"seq_length": 4096, "global_batch_size": 256},
}


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("pp", [1, 4])
def test_an_estimate_has_the_memory_of_each_rank_and_the_worst_is_the_estimate(simulated: bool, pp: int) -> None:
    job = parse_job({**JOB, "strategy": {"tp": 1, "pp": pp, "ep": 8, "micro_batch_size": 1}})
    assert job.strategy is not None
    told = estimate_document(job, job.strategy, simulated=simulated, replayed=simulated, explained=())
    ranks, whole = told.memory_of_ranks, told.estimate
    assert [one.rank for one in ranks] == list(range(pp))
    for name in ("peak_memory_bytes", "allocated_peak_bytes", "allocated_first_iteration_bytes", "allocated_after_step_bytes"):
        assert max(getattr(one, name) for one in ranks) == getattr(whole, name)
    assert len({one.peak_memory_bytes for one in ranks}) == pp  # ends hold tables, and early ranks more micro batches
    if told.simulation is not None:
        assert [one.peak_memory_bytes for one in told.simulation.ranks] == [one.peak_memory_bytes for one in ranks]
