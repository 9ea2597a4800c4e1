"""Checkpoints that are safe once drained, and loss spikes, against a job that a plain loop plays event by event."""

from __future__ import annotations

import random

import pytest

from cost_models.delivery.failures import DAY_S, FailureClass
from cost_models.delivery.monte_carlo import Campaign, histories, one_history
from cost_models.delivery.renewal import NO_SPIKES, LossSpikes, effective

LLAMA = FailureClass("node", 1 / 11_160, 481.7)  # every 3.1 h: noticed in 60 s, restart in 360 s and loading in 56.7 s and a step


def played(
    mtbf_s: float, recovery_s: float, interval_s: float, blocking_s: float, drain_s: float, spikes: LossSpikes, wall_s: float
) -> float:
    """Useful share of one long history: a list of checkpoints, each with its progress and when it is safe."""
    draw = random.Random(7)
    now, progress = 0.0, 0.0
    saved: list[tuple[float, float]] = [(0.0, 0.0)]  # progress, running time at which it is safe
    running, since = 0.0, 0.0  # running time in all, and within the cycle
    while now < wall_s:
        until_failure = draw.expovariate(1.0 / mtbf_s) if mtbf_s else float("inf")
        until_spike = draw.expovariate(spikes.rate_per_s) if spikes.rate_per_s else float("inf")
        left = min(until_failure, until_spike, wall_s - now)
        event = "end" if left == wall_s - now else "failure" if left == until_failure else "spike"
        while left > 0.0:  # work until the interval is over, then block
            part = min(left, interval_s - since) if since < interval_s else min(left, interval_s + blocking_s - since)
            if since < interval_s:
                progress += part
            now, running, since, left = now + part, running + part, since + part, left - part
            if since >= interval_s + blocking_s - 1e-9:
                saved.append((progress, running + drain_s))
                since = 0.0
        if event == "failure":
            while saved[-1][1] > running:
                saved.pop()
            progress, since, now = saved[-1][0], 0.0, now + recovery_s
            while (strikes := draw.expovariate(1.0 / mtbf_s)) < recovery_s:  # a failure in a recovery begins it anew
                now += strikes
        elif event == "spike":
            while len(saved) > 1 and saved[-1][0] > progress - spikes.rollback_s + 1e-9:
                saved.pop()
            saved[-1] = (saved[-1][0], running)
            progress, since, now = saved[-1][0], 0.0, now + spikes.recovery_s
            if mtbf_s and (strikes := draw.expovariate(1.0 / mtbf_s)) < spikes.recovery_s:
                now += strikes - spikes.recovery_s + recovery_s
                while (strikes := draw.expovariate(1.0 / mtbf_s)) < recovery_s:
                    now += strikes
    return progress / now


CASES = [
    (11_160.0, 481.7, 255.0, 3.0, 56.7, NO_SPIKES),
    (3000.0, 200.0, 300.0, 20.0, 290.0, NO_SPIKES),
    (11_160.0, 481.7, 255.0, 3.0, 56.7, LossSpikes(1 / 40_000, 500.0, 400.0)),
    (5000.0, 300.0, 400.0, 10.0, 100.0, LossSpikes(1 / 9000, 130.0, 600.0)),
    (0.0, 0.0, 600.0, 5.0, 50.0, LossSpikes(1 / 20_000, 1800.0, 400.0)),
]


@pytest.mark.parametrize("case", CASES)
def test_the_closed_form_is_what_a_plain_loop_plays(
    case: tuple[float, float, float, float, float, LossSpikes],
) -> None:
    mtbf_s, recovery_s, interval_s, blocking_s, drain_s, spikes = case
    classes = [FailureClass("node", 1 / mtbf_s, recovery_s)] if mtbf_s else []
    found = effective(classes, interval_s, blocking_s, drain_s, spikes)
    # Some ten thousand events: the loss has an error of about 1 %.
    lost = 1.0 - played(*case, wall_s=1.5e8)
    assert 1.0 - found.useful == pytest.approx(lost, rel=0.03)
    assert found.useful + found.checkpoints + found.repeated + sum(found.recovery.values()) == pytest.approx(1.0)
    campaign = Campaign(classes, interval_s, blocking_s, drain_s=drain_s, spikes=spikes)
    months = histories(campaign, 400, 3, horizon_s=60 * DAY_S)
    assert 1.0 - months.useful_s.mean() / (60 * DAY_S) == pytest.approx(1.0 - found.useful, rel=0.03)


def test_llama_loses_a_tenth_more_where_a_checkpoint_must_drain() -> None:
    """By hand: each failure loses as much more as drains, 56.7 of 11,160 s, of the time that the job runs."""
    at_once, drained = (effective([LLAMA], 255.0, 3.0, drain_s) for drain_s in (0.0, 56.7))
    ratio = (at_once.useful / drained.useful) - 1.0
    running = 1.0 - sum(at_once.recovery.values())
    assert ratio == pytest.approx(56.7 / 11_160, rel=0.01)
    assert drained.repeated - at_once.repeated == pytest.approx(56.7 / 11_160 * running * at_once.useful / running, rel=0.06)
    assert (1.0 - drained.useful) / (1.0 - at_once.useful) == pytest.approx(1.08, abs=0.03)


def test_rollbacks_by_hand() -> None:
    # Rare spikes: each costs the rollback, half an interval and the recovery.
    spikes = LossSpikes(1e-8, 1000.0, 300.0)
    found = effective([], 100.0, 0.0, 0.0, spikes)
    assert 1.0 / found.useful - 1.0 == pytest.approx(1e-8 * (1000.0 + 50.0 + 300.0), rel=1e-3)
    assert found.recovery["loss_spike"] == pytest.approx(1e-8 * 300.0, rel=1e-3)
    # More than is trained between two: nothing is ever useful.
    assert effective([], 100.0, 0.0, 0.0, LossSpikes(1e-3, 5000.0, 1.0)).useful == 0.0


def test_a_told_history_has_the_spikes() -> None:
    campaign = Campaign([LLAMA], 255.0, 3.0, drain_s=56.7, spikes=LossSpikes(1 / 40_000, 500.0, 400.0))
    told = one_history(campaign, 1, 30 * DAY_S)
    again = [one for one in told if one.ended_by == "loss_spike"]
    assert 40 < len(again) < 90
    assert all(500.0 <= one.repeated_s <= 755.0 or (one.repeated_s < 500.0 and one.start_s < DAY_S) for one in again)
    worked = sum((one.end_s - one.start_s) * one.rate for one in told) * 255 / 258 - sum(one.repeated_s for one in told)
    assert worked == pytest.approx(histories(campaign, 1, 1, horizon_s=30 * DAY_S).useful_s[0], rel=2e-3)
