"""Continuous batching, worked by hand."""

import numpy as np
import pytest

from cost_models.serving.batching import StepTable, batched_times, step_table
from cost_models.serving.engine import ServingLayout
from cost_models.serving.steps import decode_step_s
from tests.serving import served

SECOND = StepTable(np.array([1.0]), np.array([0.0, 1.0]), np.array([[1.0, 1.0]]))
# A second for the step and one for each request in flight.
AFFINE = StepTable(np.array([1.0, 9.0]), np.array([0.0, 1.0]), np.array([[2.0, 2.0], [10.0, 10.0]]))


def test_requests_side_by_side_end_with_their_length() -> None:
    found = batched_times(1, [2, 4], SECOND, max_in_flight=2)
    assert found.finish_s.tolist() == [2.0, 4.0]
    assert found.makespan_s == 4.0
    assert found.preemptions == 0


def test_requests_that_wait_start_when_one_ends() -> None:
    assert batched_times(1, [2, 4, 3], SECOND, max_in_flight=1).finish_s.tolist() == [2.0, 6.0, 9.0]
    assert batched_times(1, [2, 4, 3, 1], SECOND, max_in_flight=2).finish_s.tolist() == [2.0, 4.0, 5.0, 5.0]


def test_a_step_takes_as_long_as_those_in_flight_make_it() -> None:
    # Two in flight: 2 steps of 3 s; then one: 2 steps of 2 s.
    assert batched_times(1, [2, 4], AFFINE, max_in_flight=2).finish_s.tolist() == [6.0, 10.0]


def test_steps_that_gain_several_tokens_are_fewer() -> None:
    drafted = StepTable(SECOND.batches, SECOND.contexts, SECOND.time_s, tokens_per_step=1.6)
    assert batched_times(1, [8], drafted, max_in_flight=1).makespan_s == pytest.approx(5.0)


def test_all_wait_for_a_prefill() -> None:
    found = batched_times(10, [2, 4], SECOND, max_in_flight=1, prefill_s_per_token=0.1)
    assert found.finish_s.tolist() == [3.0, 8.0]
    assert found.prefilled_tokens == 20.0


def test_leading_axes_are_instances_of_their_own() -> None:
    lengths = np.array([[[2, 4], [1, 0]], [[3, 3], [5, 1]]])
    found = batched_times(1, lengths, SECOND, max_in_flight=2)
    assert found.makespan_s.tolist() == [[4.0, 1.0], [3.0, 5.0]]
    assert found.finish_s[0, 1].tolist() == [1.0, 0.0]


def test_the_last_admitted_is_evicted_and_prefills_again() -> None:
    # Eleven tokens of memory: both hold five after two steps, the third would make twelve. The second waits with its four
    # tokens, and comes back with them when the first is done.
    found = batched_times([3, 3], [4, 4], SECOND, max_in_flight=2, kv_capacity_tokens=11)
    assert found.preemptions == 1
    assert found.finish_s.tolist() == [4.0, 6.0]
    assert found.prefilled_tokens == 3 + 3 + 5


def test_a_request_larger_than_memory_goes_on_alone() -> None:
    found = batched_times([3, 3], [9, 2], SECOND, max_in_flight=2, kv_capacity_tokens=5)
    assert found.finish_s.tolist() == [9.0, 11.0]


def test_an_empty_instance_takes_no_time() -> None:
    assert batched_times(np.zeros((2, 3)), np.zeros((2, 3)), SECOND, max_in_flight=2).makespan_s.tolist() == [0.0, 0.0]
    assert batched_times([5], [0], SECOND, max_in_flight=2, kv_capacity_tokens=1).makespan_s == 0.0


def test_a_table_gives_steps_between_its_points() -> None:
    workload, layout = served(), ServingLayout(tp=2)
    table = step_table(workload, layout, 300, 4096)
    for batch, context in ((1, 1.0), (77, 1234.0), (300, 4096.0)):
        exact = float(decode_step_s(workload, layout, batch, context))
        assert float(table.step_s(batch, np.array(context))) == pytest.approx(exact, rel=2e-3)
