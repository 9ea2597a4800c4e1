"""Groups on nodes, by hand for nodes of 8."""

import numpy as np
import pytest

from cost_models.network.rank_placement import crossed_tier, domains_spanned, members_per_domain, rank_groups
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch


@pytest.mark.parametrize(
    ("size", "stride", "members"),
    [
        (1, 1, 1.0),
        (8, 1, 8.0),  # tp8 fills a node
        (16, 1, 8.0),  # tp16: two nodes
        (4, 2, 4.0),  # ranks 0 2 4 6
        (8, 4, 2.0),  # ranks 0 4 | 8 12 | ...
        (32, 8, 1.0),  # every member in a node of its own
        (4, 64, 1.0),
        (12, 1, 6.0),  # ceil(12 / 8) = 2 nodes share 12
        (3, 3, 1.5),  # floor(8 / 3) = 2 fit wherever the group starts: 2 nodes share 3
        (5, 3, 5 / 3),
    ],
)
def test_members_of_a_group_in_a_node(size: int, stride: int, members: float) -> None:
    assert float(members_per_domain(size, stride, 8)) == members


def test_a_domain_without_end_holds_every_member() -> None:
    assert float(members_per_domain(4096, 16, None)) == 4096.0
    assert float(domains_spanned(4096, 16, None)) == 1.0


def test_columns_broadcast() -> None:
    members = members_per_domain(np.array([[2], [16]]), np.array([1, 4, 8]), 8)
    np.testing.assert_array_equal(members, [[2.0, 2.0, 1.0], [8.0, 2.0, 1.0]])


@pytest.mark.parametrize(
    ("size", "stride", "tier"),
    [
        (2, 1, 0),  # the die pair
        (4, 1, 1),  # one node of 16 dies
        (2, 8, 1),  # stages of 8 in one node
        (4, 8, 2),  # stages of 8: 0 and 1 share a node, 1 and 2 do not
        (2, 16, 2),
        (48, 16, 2),  # 768 dies: exactly one supernode
        (96, 16, 3),
        (1, 4096, 0),
    ],
)
def test_neighbours_cross_the_worst_link_of_their_chain(size: int, stride: int, tier: int) -> None:
    assert int(crossed_tier(size, stride, [2, 16, 768, None])) == tier


def test_a_single_tier_holds_every_chain() -> None:
    np.testing.assert_array_equal(crossed_tier(np.array([1, 64]), 8, [None]), [0, 0])


def test_a_chain_longer_than_every_domain_uses_the_last_tier() -> None:
    assert int(crossed_tier(64, 8, [8, 64])) == 1


def test_strides_follow_the_rank_order() -> None:
    # 1 stage = tp 4 x cp 2 x dp 8 = 64 ranks = etp 2 x ep 8 x edp 4
    groups = rank_groups(StrategyBatch.of([ParallelStrategy(tp=4, pp=3, dp=8, cp=2, ep=8, etp=2)]))
    named = {name: (int(group.size[0]), int(group.stride[0])) for name, group in vars(groups).items()}
    assert named == {
        "tp": (4, 1),
        "cp": (2, 4),
        "dp_cp": (16, 4),
        "pp": (3, 64),
        "ep": (8, 2),
        "edp": (4, 16),
    }


def test_experts_over_all_devices_of_a_stage_have_no_replicas() -> None:
    groups = rank_groups(StrategyBatch.of([ParallelStrategy(tp=2, dp=4, ep=8)]))  # tp 2 x dp 4 = ep 8
    assert (int(groups.edp.size[0]), int(groups.edp.stride[0])) == (1, 8)
