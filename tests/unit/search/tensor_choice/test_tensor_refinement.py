"""What a search says of its structures by tensor."""

from dataclasses import replace

import pytest

from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.simulation.step_times import simulate
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from search.tensor_choice.tensor_refinement import refined
from tests.unit.search.tensor_choice.test_tensor_plan import LONG, NODES, tight
from tests.workloads import constants, workload

PLAN = ParallelStrategy(pp=4, dp=4, schedule=Schedule.ONE_F_ONE_B)


@pytest.mark.parametrize("target", ["any", "megatron-lm"])
def test_plans_by_tensor_fit_and_are_faster_than_what_they_come_from(target: str) -> None:
    job = tight(workload(LONG, cluster=NODES, target=target), PLAN, 0.6)
    space = search_space(job, SearchLimits())
    slow_s = 2.0 * float(simulate(job, StrategyBatch.of([PLAN]), constants()).step_time_s[0])
    found = refined(job, space, constants(), simulate, PLAN, slow_s)
    assert bool(found) == (target == "any")
    assert not refined(job, space, constants(), simulate, PLAN, 1e-6)
    for each in found:
        assert each.estimate["fits"]
        assert each.gain_fraction == pytest.approx(1.0 - each.estimate["step_time_s"] / slow_s)
        assert each.micro_batch_size in (1, 2)
        assert 0.0 < each.saved_fraction < 1.0
        assert "tensor_plan" in each.strategy


def test_a_wider_micro_batch_is_tried_where_the_search_has_it() -> None:
    job = tight(workload(LONG, cluster=NODES), PLAN, 0.6)
    narrow = replace(search_space(job, SearchLimits()), micro_batch_size=(1,))
    slow_s = 1e3
    sizes = {each.micro_batch_size for each in refined(job, narrow, constants(), simulate, PLAN, slow_s)}
    assert sizes == {1}
