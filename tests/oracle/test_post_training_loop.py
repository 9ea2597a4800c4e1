"""The product's rollout and programs against an event loop that knows nothing of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.post_training.placements import Parts, PlacementKind, Staleness, step_time
from cost_models.serving.batching import StepTable, batched_times
from tests.oracle import post_training_loop as oracle

seconds = st.floats(0.5, 40.0)
BASE_S, REQUEST_S, TOKEN_S = 0.02, 0.0004, 2e-7


@given(seconds, seconds, st.floats(0.0, 5.0), st.integers(0, 4))
def test_two_pools_keep_the_pace_of_the_event_loop(rollout_s: float, train_s: float, sync_s: float, staleness: int) -> None:
    parts = Parts(rollout_s, rollout_s, 0.0, 0.0, 0.0, 0.0, train_s, sync_s=sync_s)
    found = step_time(PlacementKind.SEPARATE, parts, Staleness(staleness), remainder_fraction=0.0)
    assert found.step_s == pytest.approx(oracle.separate_period_s(rollout_s, train_s, sync_s, staleness), rel=0.01)


@given(
    st.lists(st.lists(st.integers(5, 120), min_size=3, max_size=3), min_size=4, max_size=8), st.integers(1, 3), st.integers(1, 6)
)
def test_a_rollout_ends_when_the_event_loop_says(groups: list[list[int]], instances: int, slots: int) -> None:
    def step_s(batch: int, context: float) -> float:
        return BASE_S + batch * (REQUEST_S + TOKEN_S * context)

    batches, contexts = np.arange(1.0, 7.0), np.array([0.0, 400.0])
    table = StepTable(batches, contexts, BASE_S + batches[:, None] * (REQUEST_S + TOKEN_S * contexts[None, :]))
    each = -(-len(groups) // instances)
    dealt = np.zeros((each * instances, 3))
    dealt[: len(groups)] = groups
    requests = dealt.reshape(each, instances, 3).transpose(1, 0, 2).reshape(instances, -1)
    found = batched_times(100.0, requests, table, max_in_flight=slots)
    expected = sorted(oracle.rollout(groups, instances, slots, 100.0, step_s))
    assert np.sort(found.finish_s[requests > 0.0]) == pytest.approx(np.array(expected), rel=0.01)
