"""Continuous batching agrees with an engine played token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.serving.batching import StepTable, batched_times
from tests.oracle.serving_loop import play

# 10 ms, 0.3 ms a request, and 1 us for each thousand tokens of context of each request: linear in both.
BATCHES, CONTEXTS = np.array([1.0, 64.0]), np.array([0.0, 4096.0])
TABLE = StepTable(BATCHES, CONTEXTS, 0.01 + BATCHES[:, None] * 3e-4 + np.array([[0.0, 1.0], [0.0, 64.0]]) * 4096e-9)


def step_s(batch: int, context: float) -> float:
    return float(TABLE.step_s(batch, np.array(context)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 120)), min_size=1, max_size=24),
    st.integers(1, 24),
    st.sampled_from([0.0, 1e-4, 1e-3]),
)
def test_finishes_agree_where_memory_holds_all(requests: list[tuple[int, int]], slots: int, prefill_s_per_token: float) -> None:
    prompts, responses = zip(*requests, strict=True)
    played, _ = play(prompts, responses, step_s, slots=slots, prefill_s_per_token=prefill_s_per_token)
    found = batched_times(prompts, responses, TABLE, max_in_flight=slots, prefill_s_per_token=prefill_s_per_token)
    assert found.makespan_s == pytest.approx(max(played), rel=0.01)
    assert np.sort(found.finish_s) == pytest.approx(np.sort(played), rel=0.01, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 120)), min_size=2, max_size=24),
    st.integers(1, 24),
    st.integers(60, 600),
)
def test_finishes_and_evictions_agree_where_memory_overflows(requests: list[tuple[int, int]], slots: int, capacity: int) -> None:
    prompts, responses = zip(*requests, strict=True)
    played, evictions = play(prompts, responses, step_s, slots=slots, capacity=capacity, prefill_s_per_token=1e-4)
    found = batched_times(prompts, responses, TABLE, max_in_flight=slots, kv_capacity_tokens=capacity, prefill_s_per_token=1e-4)
    assert found.preemptions == evictions
    assert found.makespan_s == pytest.approx(max(played), rel=0.01)
