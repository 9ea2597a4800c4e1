"""Expert routing by hand and against the counts of exhaustive draws."""

from itertools import combinations

import numpy as np
import pytest

from cost_models.layer.expert_communication import (
    ExpertTransfer,
    RoutedTokens,
    expected_domains_per_token,
    expert_combine,
    expert_dispatch,
    inter_domain_copies,
)
from cost_models.network.tiers import Network
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.workload import MoeShape
from hardware_profiles.schema import NetworkTier, Wiring
from tests.networks import ascend_a2, cluster, gpu

DEEPSEEK = MoeShape(num_experts=256, top_k=8, expert_ffn_hidden_size=2048)
TOKENS, TOKEN_BYTES = 1000, 10_000  # 10 MB a rank


@pytest.mark.parametrize(
    ("nodes", "plain", "two_level", "gathered"),
    [(1, 0.0, 0.0, 0.0), (2, 4.0, 1.0, 1.0), (4, 6.0, 2.71, 3.0), (8, 7.0, 4.63, 7.0), (16, 7.5, 6.1, 15.0)],
)
def test_copies_that_cross_nodes_for_top_8_of_256(nodes: int, plain: float, two_level: float, gathered: float) -> None:
    copies = {dispatcher: float(inter_domain_copies(dispatcher, nodes, DEEPSEEK)) for dispatcher in Dispatcher}
    assert copies[Dispatcher.ALLTOALL] == plain
    assert copies[Dispatcher.TWO_LEVEL] == pytest.approx(two_level, abs=0.02)
    assert copies[Dispatcher.HIERARCHICAL] == copies[Dispatcher.ALLGATHER] == gathered
    assert copies[Dispatcher.NONE] == 0.0


def _mean_domains(experts: int, k: int, domains: int, groups: int, group_topk: int) -> float:
    """Mean over every equally likely draw: groups first, then experts of those groups."""
    per_group, per_domain = experts // groups, experts // domains
    counts = [
        len({expert // per_domain for expert in drawn})
        for picked in combinations(range(groups), group_topk)
        for drawn in combinations([g * per_group + i for g in picked for i in range(per_group)], k)
    ]
    return sum(counts) / len(counts)


@pytest.mark.parametrize(
    ("domains", "groups", "group_topk"),
    [(1, 1, 1), (2, 1, 1), (3, 1, 1), (12, 1, 1), (4, 4, 2), (2, 4, 2), (2, 4, 3), (12, 4, 2), (6, 3, 2), (4, 4, 4)],
)
def test_domains_a_token_meets_equal_the_mean_over_all_draws(domains: int, groups: int, group_topk: int) -> None:
    expected = _mean_domains(12, 3, domains, groups, group_topk)
    assert float(expected_domains_per_token(domains, 12, 3, groups, group_topk)) == pytest.approx(expected)


def test_group_limited_routing_bounds_the_nodes_of_a_token() -> None:
    # DeepSeek-V3: 4 of 8 groups, a group a node; all four are met unless every one of 8 experts misses one
    met = float(expected_domains_per_token(8, 256, 8, 8, 4))
    assert 3.6 < met < 4.0
    assert met < float(expected_domains_per_token(8, 256, 8))


def test_tiers_with_streams_of_their_own_take_as_long_as_the_slower_one() -> None:
    network = Network.of(ascend_a2())
    assert network.sequential
    for dispatcher in Dispatcher:
        times = []
        for streams in (False, True):
            routed = RoutedTokens(dispatcher, TOKENS, TOKEN_BYTES, [8, 16], 1, DEEPSEEK, network, tier_streams=streams)
            times.append((expert_dispatch(routed).time_s, expert_combine(routed).time_s))
        if dispatcher in (Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL):
            # Inside one node there is one tier; a combine over two takes its slower stage alone: 10 MB over each link.
            np.testing.assert_array_equal([t[0] for t in times[1]], [t[0] for t in times[0]])
            assert times[1][1][1] == pytest.approx(10e6 / 18.3e9, rel=0.01)
        else:
            np.testing.assert_array_equal(times[1], times[0])


def _both(dispatcher: Dispatcher, ep: int, network: Network, **more: float) -> tuple[ExpertTransfer, ExpertTransfer]:
    routed = RoutedTokens(dispatcher, TOKENS, TOKEN_BYTES, ep, more.get("etp", 1), DEEPSEEK, network, more.get("load", 1.0))
    return expert_dispatch(routed), expert_combine(routed)


# Hand-worked on two A2 nodes of 8 (ep 16): 18.3 GB/s links, 20 GB/s NICs, no latency, in ms.
# Copies of a rank: 8 x 10 MB = 80 MB.
# plain: 1/16 of 80 MB over each link, half of 80 MB through the NIC.
PLAIN_MS = 5 / 18.3 + 40 / 20
# two-level: 0.99651 x 10 MB through the NIC, then 80 MB over 8 ranks of the node: 10 MB over each link.
TWO_LEVEL_MS = 9.9651 / 20 + 10 / 18.3
# hierarchical: the other node's 10 MB through the NIC, then as above.
HIERARCHICAL_MS = 10 / 20 + 10 / 18.3
# all-gather: 10 MB through the NIC, then 20 MB from each of 7 peers.
ALLGATHER_MS = 10 / 20 + 20 / 18.3


@pytest.mark.parametrize(
    ("dispatcher", "milliseconds", "intra_mb", "inter_mb"),
    [
        (Dispatcher.ALLTOALL, PLAIN_MS, 35.0, 40.0),
        (Dispatcher.TWO_LEVEL, TWO_LEVEL_MS, 70.0, 9.9651),
        (Dispatcher.HIERARCHICAL, HIERARCHICAL_MS, 70.0, 10.0),
        (Dispatcher.ALLGATHER, ALLGATHER_MS, 140.0, 10.0),
    ],
)
def test_combine_over_two_nodes(dispatcher: Dispatcher, milliseconds: float, intra_mb: float, inter_mb: float) -> None:
    _, combine = _both(dispatcher, 16, Network.of(ascend_a2()))
    assert float(combine.time_s) * 1e3 == pytest.approx(milliseconds, rel=1e-5)
    assert float(combine.intra_bytes) / 1e6 == pytest.approx(intra_mb)
    assert float(combine.inter_bytes) / 1e6 == pytest.approx(inter_mb, rel=1e-5)


def test_a_dispatch_carries_counts_and_weights() -> None:
    dispatch, combine = _both(Dispatcher.ALLTOALL, 16, Network.of(ascend_a2()))
    # counts: 256 x 8 B a rank: 2,048 B through the NIC, then 4,096 B from each peer of the node
    # weights: 8 x 1000 x 4 B = 32 kB a rank: 2 kB over each link, 16 kB through the NIC
    extra = (2048 / 20 + 4096 / 18.3 + 2000 / 18.3 + 16000 / 20) * 1e-9
    assert float(dispatch.time_s - combine.time_s) == pytest.approx(extra)


def test_a_gathered_dispatch_carries_the_routing_map() -> None:
    dispatch, combine = _both(Dispatcher.ALLGATHER, 16, Network.of(ascend_a2()))
    # 1000 x 256 x (1 + 4) B = 1.28 MB a rank beside 10 MB
    assert float(dispatch.time_s / combine.time_s) == pytest.approx(1.128)


def test_expert_tensor_parallel_ranks_share_what_they_receive() -> None:
    # etp 2, ep 4 in one node of links: 80 MB exchanged over 4 ranks, 20 MB a link of the three that ep uses;
    # then 160 MB gathered by two ranks over their one link: 80 MB
    _, combine = _both(Dispatcher.ALLTOALL, 4, Network.of(ascend_a2()), etp=2)
    assert float(combine.time_s) * 1e3 == pytest.approx(20 / 18.3 + 80 / 18.3)


def test_a_pipelined_network_forwards_while_it_receives() -> None:
    _, combine = _both(Dispatcher.TWO_LEVEL, 16, Network.of(gpu()))
    # 9.9651 MB through a 25 GB/s NIC, 7/8 of 63.0 MB (6.4 of 16 ranks hold an expert of a token) through NVLink at 300 GB/s
    assert float(combine.time_s) * 1e3 == pytest.approx(9.9651 / 25, rel=1e-5)


def test_deepep_sends_a_rank_one_copy() -> None:
    # 8 of 256 experts over 8 ranks meet 8 (1 - C(224, 8) / C(256, 8)) = 5.29 of them; HCCL sends a copy for each expert
    met = float(expected_domains_per_token(8, 256, 8))
    assert met == pytest.approx(5.294, abs=1e-3)
    for network, copies in ((Network.of(gpu()), met), (Network.of(ascend_a2()), 8.0)):
        _, combine = _both(Dispatcher.TWO_LEVEL, 8, network)
        assert float(combine.intra_bytes) == pytest.approx(copies * 10e6 * 7 / 8)


def test_the_most_loaded_rank_sets_the_pace_of_an_exchange_alone() -> None:
    network = Network.of(ascend_a2())
    for dispatcher, factor in ((Dispatcher.ALLTOALL, 1.5), (Dispatcher.ALLGATHER, 1.0)):
        _, even = _both(dispatcher, 16, network)
        _, uneven = _both(dispatcher, 16, network, load=1.5)
        assert float(uneven.time_s / even.time_s) == pytest.approx(factor)
    _, uneven = _both(Dispatcher.HIERARCHICAL, 16, network, load=1.5)
    assert float(uneven.time_s) * 1e3 == pytest.approx(10 / 20 + 15 / 18.3)
    # two-level: a hot rank is one of 8 of its node, 1 + 0.5 / 8
    _, uneven = _both(Dispatcher.TWO_LEVEL, 16, network, load=1.5)
    assert float(uneven.time_s) * 1e3 == pytest.approx(9.9651 * 1.0625 / 20 + 15 / 18.3, rel=1e-5)


def test_a_supernode_is_one_domain() -> None:
    network = Network.of(
        cluster(
            NetworkTier("pair", Wiring.SWITCH, 2, 204e9, 0.0),
            NetworkTier("node", Wiring.SWITCH, 16, 196e9, 0.0),
            NetworkTier("supernode", Wiring.SWITCH, 768, 196e9, 0.0),
            NetworkTier("roce", Wiring.FABRIC, None, 24.5e9, 0.0),
            sequential=True,
        )
    )
    _, plain = _both(Dispatcher.ALLTOALL, 64, network)
    _, hierarchical = _both(Dispatcher.HIERARCHICAL, 64, network)
    assert float(plain.inter_bytes) == 0.0
    assert float(hierarchical.time_s) == pytest.approx(float(plain.time_s))


def test_a_column_of_dispatchers_equals_each_alone() -> None:
    network = Network.of(ascend_a2(latency_s=1e-6), call_latency_s=1e-5)
    codes = np.array([int(d) for d in Dispatcher])
    column = expert_dispatch(RoutedTokens(codes, TOKENS, TOKEN_BYTES, 32, 1, DEEPSEEK, network))
    alone = [_both(dispatcher, 32, network)[0] for dispatcher in Dispatcher]
    for name in ("time_s", "intra_bytes", "inter_bytes"):
        np.testing.assert_array_equal(getattr(column, name), [float(getattr(part, name)) for part in alone])
    assert column.time_s[Dispatcher.NONE] == 0.0
    combined = expert_combine(RoutedTokens(Dispatcher.ALLTOALL, TOKENS, TOKEN_BYTES, 32, 1, DEEPSEEK, network))
    assert float(combined.time_s) < column.time_s[2]
