"""Placements: hand-worked steps, their limits, and queues."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.post_training.placements import SYNCHRONOUS, Parts, PlacementKind, Staleness, step_time
from cost_models.post_training.program import Task, steady, streamed_end_s

PARTS = Parts(
    rollout_s=60.0,
    steady_rollout_s=30.0,
    old_log_prob_s=5.0,
    reference_s=4.0,
    reward_s=1.0,
    critic_s=0.0,
    update_s=20.0,
    to_rollout_s=3.0,
    to_train_s=2.0,
    sync_s=6.0,
    finish_s=tuple(60.0 * (piece + 1) / 16 for piece in range(16)),
)


def seconds(kind: PlacementKind, staleness: Staleness = SYNCHRONOUS, parts: Parts = PARTS) -> float:
    return step_time(kind, parts, staleness, remainder_fraction=0.0).step_s


def test_on_shared_devices_the_step_is_the_sum_of_its_phases() -> None:
    assert seconds(PlacementKind.FULLY_COLOCATED) == pytest.approx(3 + 60 + 2 + 5 + 4 + 1 + 20)


def test_a_reference_on_devices_of_its_own_runs_beside_the_old_log_probabilities() -> None:
    # Reward and reference take 5 s after the rollout, the change of layout and the old log-probabilities 2 + 5.
    assert seconds(PlacementKind.COLOCATED) == pytest.approx(3 + 60 + 2 + 5 + 20)
    slow = replace(PARTS, reference_s=30.0)
    assert seconds(PlacementKind.COLOCATED, parts=slow) == pytest.approx(3 + 60 + 30 + 1 + 20)
    # Through a queue a sixteenth of 31 s is left when the last answer comes, hidden behind 2 + 5.
    assert seconds(PlacementKind.COLOCATED, Staleness(streams=True), slow) == pytest.approx(3 + 60 + 2 + 5 + 20)


def test_separate_and_synchronous_is_the_sum_too() -> None:
    assert seconds(PlacementKind.SEPARATE) == pytest.approx(60 + 30 + 6)


def test_one_step_off_takes_the_longer_side() -> None:
    assert seconds(PlacementKind.SEPARATE, Staleness(1)) == pytest.approx(60 + 6)
    assert seconds(PlacementKind.SEPARATE, Staleness(1), replace(PARTS, update_s=90.0)) == pytest.approx(100 + 6)


def test_answers_that_go_on_bind_only_through_their_age() -> None:
    # 30 s of tokens a step on the pool; an answer takes 60 s, and 36 s later its successor's weights are there.
    assert seconds(PlacementKind.SEPARATE, Staleness(1, partial=True)) == pytest.approx((60 + 30 + 6) / 2)
    assert seconds(PlacementKind.SEPARATE, Staleness(4, partial=True)) == pytest.approx(30 + 6)


def test_leftovers_start_the_next_step() -> None:
    none = seconds(PlacementKind.SEPARATE, Staleness(leftover_fraction=0.0, streams=True))
    half = seconds(PlacementKind.SEPARATE, Staleness(leftover_fraction=0.5, streams=True, partial=True))
    assert none > half >= 30 + 6 - 5  # no pass of old log-probabilities: several versions made the answers
    assert none == pytest.approx(60 + 30 / 16 + 6, rel=1e-3)


def test_a_hybrid_gives_its_training_devices_back_to_rollout() -> None:
    # All devices make the tokens in 30 s; for 30 s half of them train, which takes 15 s of the whole pool.
    hybrid = replace(PARTS, train_share=0.5)
    assert seconds(PlacementKind.HYBRID, Staleness(1, partial=True), hybrid) == pytest.approx(30 + 15 + 6)


@given(st.lists(st.floats(0.1, 50), min_size=6, max_size=6), st.integers(1, 6))
def test_no_bound_on_staleness_gives_the_longer_side(values: list[float], steps: int) -> None:
    rollout, steady_s, log_prob, update, sync, reward = values
    parts = Parts(rollout, min(steady_s, rollout), log_prob, 0.0, reward, 0.0, update, sync_s=sync)
    without = seconds(PlacementKind.SEPARATE, Staleness(None, partial=True), parts)
    assert without == pytest.approx(max(parts.steady_rollout_s, parts.training_s) + sync, rel=0.01)
    bounded = [seconds(PlacementKind.SEPARATE, Staleness(k, partial=k > 0), parts) for k in range(steps + 1)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(bounded))
    assert bounded[0] == pytest.approx(rollout + parts.training_s + sync)


def test_the_remainder_is_a_share_of_the_step() -> None:
    found = step_time(PlacementKind.FULLY_COLOCATED, PARTS)
    assert found.step_s == pytest.approx(95.0 * 1.05)
    assert found.remainder_s == pytest.approx(95.0 * 0.05)


def test_a_program_says_what_a_task_waited_for() -> None:
    found = steady([Task("make", ("a",), 2.0, (("use", 2),)), Task("use", ("b",), 5.0, (("make", 0),))])
    assert found.period_s == pytest.approx(5.0)
    assert found.busy_fraction == pytest.approx({"a": 0.4, "b": 1.0})
    assert {bar.waits_for for bar in found.bars if bar.name == "make"} == {"use"}


def test_what_a_task_makes_is_there_after_its_tail() -> None:
    # The pool is free after 2 s and goes on; its user begins 7 s later, when the last of it is made.
    found = steady([Task("make", ("a",), 2.0, tail_s=7.0), Task("use", ("b",), 1.0, (("make", 0),))])
    made = {bar.step: bar for bar in found.bars if bar.name == "make"}
    used = {bar.step: bar for bar in found.bars if bar.name == "use"}
    assert all(bar.made_s - bar.end_s == pytest.approx(7.0) for bar in made.values())
    assert all(used[step].start_s == pytest.approx(made[step].made_s) for step in used)
    assert all(bar.made_s == bar.end_s for bar in used.values())


def test_a_server_behind_a_queue_ends_soon_after_the_last_arrival() -> None:
    assert streamed_end_s([1.0, 2.0, 10.0], 3.0) == pytest.approx(13.0)
    assert streamed_end_s([1.0, 1.0, 1.0], 3.0) == pytest.approx(10.0)
    assert streamed_end_s([1.0, 1.0], 3.0, transfer_s=4.0) == pytest.approx(13.0)
