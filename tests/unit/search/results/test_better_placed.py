"""What a search says of a baseline whose layers lie badly."""

from __future__ import annotations

from dataclasses import replace

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from search.exhaustive.lattice_search import search
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, request, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(2,), pp=(4,), vpp=(1,), micro_batch_size=(1,))
EVEN = ParallelStrategy(tp=2, pp=4, dp=1, schedule=Schedule.ONE_F_ONE_B, sequence_parallel=True)


def sentence(baseline: ParallelStrategy) -> str:
    job = workload(replace(DENSE, num_layers=16), num_devices=8)
    found = search(request(job, search_space(job, LIMITS), CONSTANTS, baseline=baseline, top=1)).baseline
    assert found is not None
    return found.why


def test_a_baseline_whose_last_rank_is_overfull_is_told_to_move_layers() -> None:
    crowded = replace(EVEN, layer_layout=((2, 4, 4, 6),))
    assert "Moving layers alone would make it" in sentence(crowded)
    assert "layers of the virtual stages 2 2x4 6 ->" in sentence(crowded)


def test_of_a_baseline_whose_layers_lie_well_nothing_is_said() -> None:
    job = workload(replace(DENSE, num_layers=16), num_devices=8)
    best = search(request(job, search_space(job, LIMITS), CONSTANTS, top=1)).plans[0].parallel
    assert "Moving layers" not in sentence(best)
