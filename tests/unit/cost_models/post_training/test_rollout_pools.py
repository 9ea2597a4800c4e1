"""Rollout pools: hand-worked dealing, and that no device more makes it slower."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.post_training.lengths import draw_lengths, lengths_from_mean
from cost_models.post_training.rollout_side import RolloutTimes, Scheduling, rollout_times
from cost_models.serving.batching import table_batches
from cost_models.serving.engine import ServingLayout
from tests.networks import ascend_a2
from tests.serving import served
from tests.workloads import SPARSE


def rolled(devices: int, lengths: list[list[int]], **options: Any) -> RolloutTimes:
    workload = served(cluster=replace(ascend_a2(), num_devices=devices))
    return rollout_times(workload, ServingLayout(tp=2), np.array(lengths), 100.0, **options)


def test_a_third_instance_is_not_used_where_it_puts_long_groups_together() -> None:
    # In turn on two: 900 beside 20 each. On three the first and the last group would meet, at twice the batch.
    uneven = [[900] * 4, [20] * 4, [20] * 4, [900] * 4]
    two, three, four = (rolled(devices, uneven).makespan_s for devices in (4, 6, 8))
    assert three == two
    assert four <= three


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 900), min_size=2, max_size=2), min_size=1, max_size=14), st.integers(1, 8))
def test_no_instance_more_makes_a_rollout_slower(lengths: list[list[int]], slots: int) -> None:
    found = [rolled(devices, lengths, max_requests=slots) for devices in range(2, 34, 2)]
    for times in ([one.makespan_s for one in found], [one.steady_s for one in found], [one.longest_s for one in found]):
        assert all(later <= earlier * (1.0 + 1e-12) for earlier, later in pairwise(times))


def test_answers_of_several_batches_on_the_way_fill_the_instances() -> None:
    found = rolled(4, draw_lengths(lengths_from_mean(200.0, 800), 16, 4).tolist())
    ahead = found.going_on(2.0)
    assert ahead.makespan_s == found.makespan_s
    assert ahead.steady_s < found.steady_s
    assert ahead.longest_s > found.longest_s


def test_a_longer_table_begins_as_a_shorter_one() -> None:
    assert table_batches(1).tolist() == list(range(1, 33))
    assert table_batches(66).tolist() == [*range(1, 33), *range(34, 65, 2), 68]
    for most in (33, 100, 5000):
        batches = table_batches(most)
        assert batches[-1] >= most
        assert np.array_equal(batches, table_batches(8192)[: len(batches)])
        assert np.all(np.diff(batches) <= np.maximum(batches[:-1] / 16.0, 1.0))


def test_a_pool_without_a_whole_instance_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit on 1 rollout devices"):
        rolled(1, [[10]])


def test_answers_to_long_prompts_first_end_earlier_than_groups_in_turn() -> None:
    lengths = draw_lengths(lengths_from_mean(300.0, 3000, sigma=1.0), 64, 8)
    times = {one: rolled(16, lengths.tolist(), scheduling=one, max_requests=16) for one in Scheduling}
    makespans = {name: found.makespan_s for name, found in times.items()}
    assert makespans[Scheduling.GROUPS] > makespans[Scheduling.ANSWERS] > makespans[Scheduling.LONGEST]
    assert all(len(found.groups_s) == 64 and found.groups_s[-1] == found.makespan_s for found in times.values())


@pytest.mark.parametrize("scheduling", Scheduling)
def test_a_group_is_complete_with_its_last_answer(scheduling: Scheduling) -> None:
    # One replica and room for all: an answer ends after as many steps as it has tokens.
    found = rolled(2, [[10, 40], [20, 30], [5, 25]], scheduling=scheduling)
    assert len(found.finish_s) == 6
    assert found.groups_s.tolist() == [found.finish_s[index] for index in (3, 4, 5)]
    assert found.complete_s(1 / 3) == found.finish_s[3]
    assert found.complete_s(1.0) == found.makespan_s


def test_replicas_of_one_instance_keep_their_answers() -> None:
    # Both long answers lie on the first replica, whose steps are those of two requests; apart, each has one beside a short one.
    layout = ServingLayout(tp=1, dp=2, ep=2)
    workload = served(SPARSE, cluster=replace(ascend_a2(), num_devices=2))
    uneven = np.array([[400, 400], [10, 10]])
    found = rollout_times(workload, layout, uneven, 100.0)
    turned = rollout_times(workload, layout, uneven, 100.0, scheduling=Scheduling.ANSWERS)
    assert found.first_instance_s < turned.first_instance_s
    assert found.makespan_s > turned.makespan_s
