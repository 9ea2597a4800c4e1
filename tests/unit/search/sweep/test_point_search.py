"""A point's search finds what the lattice search finds, whatever it knows before."""

from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from search.exhaustive.lattice_search import LatticeSearch
from search.session.runner import run_to_end
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from search.sweep.point_search import PointSearch, starting_state
from tests.search_workloads import DENSE, MOE, request, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 4, 8), vpp=(1, 2), cp=(1,), etp=(1,), micro_batch_size=(1, 2))
JOBS = {"dense": workload(DENSE), "moe": workload(MOE)}


def on(job: Workload, num_devices: int) -> Workload:
    return replace(job, cluster=replace(job.cluster, num_devices=num_devices))


def best_of_lattice(job: Workload) -> tuple[float, ParallelStrategy]:
    search = LatticeSearch(request(job, search_space(job, LIMITS), CONSTANTS, top=1))
    run_to_end(search, None, None)
    best, _ = search.best()
    assert best is not None
    return best.step_time_s, best.strategy


def pointed(job: Workload, *known: ParallelStrategy) -> PointSearch:
    search = PointSearch(job, search_space(job, LIMITS), CONSTANTS, known=known)
    run_to_end(search, None, None)
    return search


@pytest.mark.parametrize("kind", JOBS)
def test_the_best_is_that_of_the_lattice_whatever_is_known(kind: str) -> None:
    job = JOBS[kind]
    time_s, strategy = best_of_lattice(job)
    half = on(job, job.cluster.num_devices // 2)
    _, of_half = best_of_lattice(half)
    for known in ((), (of_half,), (strategy,), (ParallelStrategy(tp=1), of_half)):
        search = pointed(job, *known)
        best, _ = search.best()
        assert best is not None
        assert search.is_closed
        assert best.step_time_s == pytest.approx(time_s, rel=1e-12)


def test_a_known_plan_leaves_less_to_price() -> None:
    job = JOBS["dense"]
    _, strategy = best_of_lattice(job)
    alone, told = pointed(job), pointed(job, strategy)
    assert told.state.legal < alone.state.legal
    assert told.before_climbing is not None


def test_plans_that_do_not_run_or_do_not_fit_here_are_no_times_to_beat() -> None:
    job = JOBS["dense"]
    space = search_space(job, LIMITS)
    count = job.cluster.num_devices
    for plan in (ParallelStrategy(tp=3), ParallelStrategy(tp=2), ParallelStrategy(tp=8, pp=8 * count)):
        assert starting_state(job, space, CONSTANTS, [plan]).candidates.simulated is None
    tight = replace(job, room=replace(job.room, min_headroom_bytes=job.cluster.profile.usable_hbm_bytes * 0.999))
    _, strategy = best_of_lattice(job)
    assert starting_state(tight, space, CONSTANTS, [strategy]).candidates.simulated is None


def test_a_point_without_a_plan_says_what_stands_in_the_way() -> None:
    job = JOBS["dense"]
    tight = replace(job, room=replace(job.room, min_headroom_bytes=job.cluster.profile.usable_hbm_bytes * 0.999))
    search = pointed(tight)
    assert search.best()[0] is None
    assert search.before_climbing is None
    assert search.why_no_plan().startswith("No legal strategy fits")
