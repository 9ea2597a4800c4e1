"""Simulated histories against the closed forms, which they share nothing with but the classes."""

import itertools
import math

import numpy as np
import pytest

from cost_models.delivery.failures import DAY_S, FailureClass
from cost_models.delivery.monte_carlo import Campaign, Stretch, histories, one_history
from cost_models.delivery.renewal import effective
from cost_models.delivery.repairs import supply
from cost_models.delivery.slow_nodes import rate_left, slow_share

NODE = FailureClass("node", 0.78 / 11_160, 600.0, replaces_node=True)
SOFTWARE = FailureClass("software", 0.22 / 11_160, 120.0, keeps_state=True)


@pytest.mark.parametrize(
    ("classes", "interval_s", "blocking_s"),
    [
        ([NODE, SOFTWARE], 375.0, 5.0),
        ([FailureClass("harsh", 1 / 2000, 900.0), FailureClass("kept", 1 / 1500, 300.0, keeps_state=True)], 600.0, 60.0),
        ([FailureClass("kept", 1e-4, 50.0, keeps_state=True)], math.inf, 1.0),
    ],
)
def test_months_agree_with_the_renewal_formula(classes: list[FailureClass], interval_s: float, blocking_s: float) -> None:
    found = histories(Campaign(classes, interval_s, blocking_s), 500, 1, horizon_s=60 * DAY_S)
    assert found.useful_s.mean() / (60 * DAY_S) == pytest.approx(effective(classes, interval_s, blocking_s).useful, rel=0.01)
    assert (found.elapsed_s == 60 * DAY_S).all()


@pytest.mark.parametrize(
    "options",
    [
        {"num_spares": 20},
        {"num_spares": 12, "num_replicas": 128, "replicas_per_node": 1 / 16, "elastic": True},
    ],
)
def test_long_histories_agree_with_spares_and_repairs(options: dict[str, float]) -> None:
    horizon_s = 600 * DAY_S
    campaign = Campaign([NODE, SOFTWARE], 375.0, 5.0, repair_s=3 * DAY_S, **options)  # type: ignore[arg-type]
    found = histories(campaign, 60, 2, horizon_s=horizon_s)
    nodes = supply(
        campaign.num_spares,
        NODE.rate_per_s,
        campaign.repair_s,
        num_replicas=campaign.num_replicas,
        replicas_per_node=campaign.replicas_per_node,
        elastic=campaign.elastic,
    )
    expected = effective(campaign.classes, 375.0, 5.0).useful * nodes.rate
    assert found.useful_s.mean() / horizon_s == pytest.approx(expected, rel=0.01)


def test_slow_nodes_agree_with_an_infinite_server_queue() -> None:
    campaign = Campaign([], math.inf, 0.0, slowdowns_per_s=1 / DAY_S, noticed_after_s=7200.0, slowdown_fraction=0.3)
    found = histories(campaign, 1000, 3, horizon_s=60 * DAY_S)
    assert found.useful_s.mean() / (60 * DAY_S) == pytest.approx(rate_left(1 / DAY_S, 7200.0, 0.3), rel=0.002)
    assert slow_share(1 / DAY_S, 7200.0) == pytest.approx(1 - math.exp(-7200 / DAY_S))


def test_a_history_ends_when_its_work_is_done() -> None:
    quiet = histories(Campaign([], 100.0, 10.0), 3, 0, target_s=250.0)
    assert quiet.elapsed_s.tolist() == [270.0] * 3  # two checkpoints on the way
    assert quiet.useful_s.tolist() == [250.0] * 3
    busy = histories(Campaign([NODE, SOFTWARE], 375.0, 5.0), 500, 1, target_s=54 * DAY_S)
    np.testing.assert_allclose(busy.useful_s, 54 * DAY_S, rtol=1e-9)
    assert (54 * DAY_S / busy.elapsed_s).mean() == pytest.approx(effective([NODE, SOFTWARE], 375.0, 5.0).useful, rel=0.01)


def test_the_same_seed_gives_the_same_histories() -> None:
    campaign = Campaign([NODE], 375.0, 5.0)
    first, again, other = (histories(campaign, 50, seed, horizon_s=10 * DAY_S).useful_s for seed in (4, 4, 5))
    assert (first == again).all()
    assert (first != other).any()


def test_failures_come_at_their_rate() -> None:
    found = histories(Campaign([NODE, SOFTWARE], 375.0, 5.0), 500, 6, horizon_s=30 * DAY_S)
    assert found.num_failures.mean() == pytest.approx(30 * DAY_S / 11_160, rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_a_told_history_is_the_one_that_is_played(seed: int) -> None:
    campaign = Campaign(
        [NODE, SOFTWARE], 375.0, 5.0, num_spares=1, repair_s=DAY_S, num_replicas=16, replicas_per_node=0.5, elastic=True,
        slowdowns_per_s=1 / DAY_S, noticed_after_s=7200.0, slowdown_fraction=0.3,
    )  # fmt: skip
    told = one_history(campaign, seed, 30 * DAY_S)
    played = histories(campaign, 1, seed, horizon_s=30 * DAY_S)
    assert (told[0].start_s, told[-1].end_s) == (0.0, 30 * DAY_S)
    assert all(one.end_s == after.start_s < after.end_s for one, after in itertools.pairwise(told))
    assert sum(one.ended_by is not None for one in told) == played.num_failures[0]
    working_s = sum((one.end_s - one.start_s) * one.rate for one in told) * 375.0 / 380.0
    useful_s = working_s - sum(one.repeated_s for one in told)
    assert useful_s == pytest.approx(played.useful_s[0], rel=2e-3)  # a checkpoint is under way at most ends of stretches
    assert {one.state for one in told} >= {"runs", "recovers"}
    assert all(one.repeated_s == 0.0 for one in told if one.ended_by == "software")
    assert all(one.repeated_s <= 375.0 for one in told)


def test_a_job_without_failures_runs_in_one_stretch() -> None:
    assert one_history(Campaign([], math.inf, 0.0), 0, DAY_S) == [Stretch(0.0, DAY_S, "runs", 1.0)]
