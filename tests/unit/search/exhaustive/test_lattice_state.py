from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.workload import Workload
from search.errors import SearchError
from search.exhaustive.lattice_search import LatticeSearch, search
from search.exhaustive.lattice_state import LatticeState
from search.objectives.objective import Criterion
from search.session.request import SearchRequest
from search.space.enumeration import Rejections, chunks
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
SMALL = SearchLimits(tp=(1, 4, 8), vpp=(1, 2), etp=(1,), micro_batch_size=(1, 2))
TOP = 5


def saved_and_continued(search_run: LatticeSearch, job: Workload, limits: SearchLimits) -> LatticeSearch:
    """The search as another process continues it: from nothing but the JSON text."""
    document = json.loads(json.dumps(search_run.checkpoint(), allow_nan=False))
    state = LatticeState.from_mapping(document, Criterion.STEP_TIME, TOP)
    return LatticeSearch(SearchRequest(job, search_space(job, limits), CONSTANTS, top=TOP), state=state)


@pytest.mark.parametrize("model", [DENSE, MOE], ids=["dense", "moe"])
def test_a_search_that_is_saved_and_continued_after_every_chunk_ends_as_one_that_never_stopped(model: Any) -> None:
    job = workload(model, num_devices=8)
    limits = SMALL if model is MOE else replace(SMALL, tp=(1, 2, 3))
    whole = search(SearchRequest(job, search_space(job, limits), CONSTANTS, top=TOP))
    num_chunks = sum(1 for _ in chunks(job, search_space(job, limits), Rejections()))
    lattice = LatticeSearch(SearchRequest(job, search_space(job, limits), CONSTANTS, top=TOP))
    steps = 0
    while lattice.advance():
        steps += 1
        lattice = saved_and_continued(lattice, job, limits)
    assert steps >= num_chunks > 3
    assert json.dumps(lattice.result().to_mapping()) == json.dumps(whole.to_mapping())


def test_time_spent_before_the_save_counts_on() -> None:
    job = workload(DENSE, num_devices=8)
    lattice = LatticeSearch(SearchRequest(job, search_space(job, SMALL), CONSTANTS, top=TOP, clock=iter(range(10_000)).__next__))
    lattice.advance()
    before_s = lattice.state.elapsed_s
    later = replace(lattice.request, clock=iter(range(500, 10_000)).__next__)
    continued = LatticeSearch(later, state=lattice.state)
    continued.advance()
    assert before_s < continued.progress.elapsed_s < before_s + 20


def test_a_state_of_another_format_is_refused() -> None:
    job = workload(DENSE, num_devices=8)
    document = LatticeSearch(SearchRequest(job, search_space(job, SMALL), CONSTANTS)).state.to_mapping()
    with pytest.raises(SearchError, match="format 0 is not 8"):
        LatticeState.from_mapping({**document, "format": 0}, Criterion.STEP_TIME, TOP)
    with pytest.raises(SearchError, match="not one that a search of this version wrote"):
        LatticeState.from_mapping({**document, "rejections": [["no_such_rule", 1, []]]}, Criterion.STEP_TIME, TOP)
    with pytest.raises(SearchError, match="not one that a search of this version wrote"):
        LatticeState.from_mapping({"format": 8}, Criterion.STEP_TIME, TOP)
