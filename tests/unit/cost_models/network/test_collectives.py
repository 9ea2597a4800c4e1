"""Collectives by hand. Latencies are zero unless a test is about them."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.network.collectives import all_gather_s, all_reduce_s, all_to_all_s, reduce_scatter_s, send_recv_s
from cost_models.network.tiers import Network
from cost_models.shapes.workload import Cluster, WorkloadError
from hardware_profiles.catalogue import profile
from hardware_profiles.schema import CollectiveCurve, NetworkTier, Wiring
from tests.networks import ascend_a2, cluster, gpu
from tests.worked_examples import worked

GB = 1e9
MIB = 2.0**20


def test_a_mesh_gives_small_groups_few_links() -> None:
    network = Network.of(ascend_a2())
    # S / t / link, whatever t - 1 links there are: 1 GB at 18.3 GB/s a link
    assert float(all_gather_s(GB, 8, 1, network)) == pytest.approx(1 / 8 / 18.3)
    assert float(all_gather_s(GB, 2, 1, network)) == pytest.approx(1 / 2 / 18.3)
    # all-reduce of 8: 8 link rates / 2 = 73.2 GB/s of message
    assert GB / float(all_reduce_s(GB, 8, 1, network)) == pytest.approx(73.2 * GB)


def test_two_a2_nodes_reduce_one_tier_after_the_other() -> None:
    # inside 73.2 GB/s; between: 2 x 1/2 x (S / 8) / 20 GB/s = S / 160 GB/s; 1 / (1/73.2 + 1/160) = 50.2 (reported: 48.59)
    rate = GB / float(all_reduce_s(GB, 16, 1, Network.of(ascend_a2())))
    assert rate == pytest.approx(1 / (1 / 73.2 + 1 / 160) * GB)
    assert rate == pytest.approx(50.2 * GB, rel=1e-3)


def test_tiers_in_sequence_gather_from_the_outside_in() -> None:
    # 4 nodes of 8, 32 GB: between nodes 3 shards of 1 GB at 20 GB/s, then 7 x 4 GB over 7 links of 18.3 GB/s
    seconds = float(all_gather_s(32 * GB, 32, 1, Network.of(ascend_a2())))
    assert seconds == pytest.approx(3 / 20 + 4 / 18.3)


def test_an_exchange_takes_one_step_over_a_mesh_and_the_logarithm_of_the_ranks_through_a_switch() -> None:
    latency_s = 1e-3
    assert float(all_to_all_s(1e-3, 8, 1, Network.of(ascend_a2(latency_s=latency_s)))) == pytest.approx(latency_s, rel=1e-6)
    assert float(all_to_all_s(1e-3, 8, 1, Network.of(gpu(latency_s=latency_s)))) == pytest.approx(3 * latency_s, rel=1e-6)
    # between 4 nodes: one after the other, 3 steps
    assert float(all_to_all_s(1e-3, 4, 8, Network.of(gpu(latency_s=latency_s)))) == pytest.approx(3 * latency_s, rel=1e-6)
    assert float(all_to_all_s(1e-3, 8, 8, Network.of(gpu(latency_s=latency_s)))) == pytest.approx(7 * latency_s, rel=1e-6)


def test_a_strided_group_uses_only_its_nics() -> None:
    # data parallel 4 at distance 8: 3/4 of 1 GB through one NIC
    assert float(all_gather_s(GB, 4, 8, Network.of(ascend_a2()))) == pytest.approx(0.75 / 20)


@pytest.mark.parametrize(("members", "rate"), [(1, 25), (2, 50), (4, 100), (8, 200)])
def test_a_ring_over_nodes_sums_the_nics_of_its_members(members: int, rate: int) -> None:
    # 4 nodes, G members in each: 25 GB/s x G, below NVLink's 300
    size, stride = 4 * members, 8 // members
    seconds = float(all_gather_s(GB, size, stride, Network.of(gpu())))
    assert seconds == pytest.approx((size - 1) / size / rate)


def test_a_ring_is_never_faster_than_nvlink() -> None:
    # 8 NICs of 50 GB/s = 400 > 300
    assert float(all_gather_s(GB, 16, 1, Network.of(gpu(nic=50e9)))) == pytest.approx(15 / 16 / 300)
    assert float(all_gather_s(GB, 8, 1, Network.of(gpu(nic=50e9)))) == pytest.approx(7 / 8 / 300)


def test_all_to_all_sends_each_share_through_its_tier() -> None:
    # 16 ranks hold 1.6 GB each: 7 peers of 0.1 GB over 7 links, 8 peers of 0.1 GB through the NIC
    assert float(all_to_all_s(1.6 * GB, 16, 1, Network.of(ascend_a2()))) == pytest.approx(0.1 / 18.3 + 0.8 / 20)
    assert float(all_to_all_s(1.6 * GB, 16, 1, Network.of(gpu()))) == pytest.approx(max(0.7 / 300, 0.8 / 25))


def test_a_hop_takes_the_slowest_link_of_the_chain() -> None:
    network = Network.of(ascend_a2())
    seconds = send_recv_s(GB, np.array([2, 2, 8, 1]), np.array([4, 8, 2, 8]), network)
    # in a node one link of 18.3; between nodes 20; 8 stages of 2 span two nodes; one stage sends nothing
    np.testing.assert_allclose(seconds, [1 / 18.3, 1 / 20, 1 / 20, 0.0])


def test_latency_counts_steps() -> None:
    mesh = Network.of(ascend_a2(latency_s=1e-6), call_latency_s=10e-6)
    tiny = 1e-9
    # one step in the mesh, ceil(log2 5) = 3 among 5 nodes
    assert float(all_gather_s(tiny, 8, 1, mesh)) == pytest.approx(11e-6)
    assert float(all_gather_s(tiny, 40, 1, mesh)) == pytest.approx(14e-6)
    assert float(all_reduce_s(tiny, 40, 1, mesh)) == pytest.approx(18e-6)
    # pairwise between nodes: 5 - 1
    assert float(all_to_all_s(tiny, 40, 1, mesh)) == pytest.approx(15e-6)
    assert float(send_recv_s(tiny, 2, 8, mesh)) == pytest.approx(11e-6)
    # a switch: ceil(log2 8) = 3
    assert float(all_gather_s(tiny, 8, 1, Network.of(gpu(latency_s=2e-6)))) == pytest.approx(6e-6)


def test_a_ring_over_nodes_takes_a_step_to_each_other_rank() -> None:
    """NCCL's tuning.cc: 3.4 us a step inside a node and 14 over the network, or 1.9 and 4 at 92 % of the rate (LL128)."""
    nvlink = NetworkTier("nvlink", Wiring.SWITCH, 8, 450e9, 3.4e-6)
    made = cluster(nvlink, NetworkTier("ib", Wiring.FABRIC, None, 50e9, 14e-6), sequential=False)
    h100, doubling = Network.of(made, rings=True), Network.of(made)
    # 1,024 ranks over 128 nodes: 896 steps inside, 127 between; a gigabyte through eight NICs of 50 GB/s
    short_s, sent_s = 896 * 1.9e-6 + 127 * 4e-6, 1023 / 1024 / 400
    assert worked("ring-steps") == short_s
    assert float(all_gather_s(GB, 1024, 1, h100)) == pytest.approx(short_s + sent_s / 0.92)
    assert float(reduce_scatter_s(GB, 1024, 1, h100)) == pytest.approx(short_s + sent_s / 0.92)
    # 16 ranks over two: of 10 GB, eight hundredths cost more than 14 short steps inside and one between save
    assert float(all_gather_s(10 * GB, 16, 1, h100)) == pytest.approx(14 * 3.4e-6 + 14e-6 + 15 / 16 * 10 / 400)
    # trees all-reduce; the ranks of one node double
    assert float(all_reduce_s(GB, 1024, 1, h100)) == pytest.approx(2 * (3 * 3.4e-6 + 7 * 14e-6 + sent_s))
    assert float(all_gather_s(GB, 8, 1, h100)) == pytest.approx(3 * 3.4e-6 + 7 / 8 / 450)
    assert float(all_gather_s(GB, 1024, 1, doubling)) == pytest.approx(3 * 3.4e-6 + 7 * 14e-6 + sent_s)


def test_one_rank_a_node_takes_the_least_of_pat_and_a_ring_with_slower_steps() -> None:
    """NCCL's tuning.cc: PAT has log2(n) 14/3.5 + n 2.8 us at 75 % of the rate; steps of lone ranks 8.5 us (LL128) or 14."""
    nvlink = NetworkTier("nvlink", Wiring.SWITCH, 8, 450e9, 3.4e-6)
    h100 = Network.of(cluster(nvlink, NetworkTier("ib", Wiring.FABRIC, None, 50e9, 14e-6), sequential=False), rings=True)
    pat_s = 7 * 4e-6 + 128 * 2.8e-6
    assert worked("pat-steps") == pytest.approx(pat_s)
    assert float(all_gather_s(1e3, 128, 8, h100)) == pytest.approx(pat_s + 127 / 128 * 1e3 / 50e9 / 0.75)
    assert float(reduce_scatter_s(0.1 * GB, 128, 8, h100)) == pytest.approx(pat_s + 127 / 128 * 0.1 / 50 / 0.75)
    assert float(all_gather_s(0.3 * GB, 128, 8, h100)) == pytest.approx(127 * 8.5e-6 + 127 / 128 * 0.3 / 50 / 0.92)
    assert float(all_gather_s(GB, 128, 8, h100)) == pytest.approx(127 * 14e-6 + 127 / 128 / 50)
    assert float(all_gather_s(1e3, 100, 8, h100)) == pytest.approx(6 * 4e-6 + 100 * 2.8e-6, rel=1e-3)  # rounded down
    # a second rank a node adds less than a doubling of the time
    assert float(all_gather_s(1e3, 256, 4, h100)) < 2 * float(all_gather_s(1e3, 128, 8, h100))


@pytest.mark.parametrize("name", ["a100-pcie-80gb", "l40s-48gb", "h100-nvl-94gb", "h100-pcie-80gb"])
def test_rings_through_pcie_have_no_short_protocol(name: str) -> None:
    """NCCL's tuning.cc switches LL128 off where a ring leaves NVLink in a node; a lone rank leaves none."""
    pcie = Network.of(Cluster(profile(name), 512), rings=True)
    assert float(all_gather_s(1e3, 512, 1, pcie)) == pytest.approx(448 * 3.4e-6 + 63 * 14e-6, rel=1e-3)
    assert float(all_gather_s(1e3, 64, 8, pcie)) == pytest.approx(6 * 4e-6 + 64 * 2.8e-6, rel=1e-3)


@pytest.mark.parametrize(
    "name", ["a100-sxm-80gb", "h100-sxm-80gb", "gh200-96gb", "v100-sxm-32gb", "b200-sxm-180gb", "gb200-nvl72"]
)
def test_rings_over_nvlink_have_the_short_protocol(name: str) -> None:
    hardware = profile(name)
    devices = hardware.tiers[0].domain_devices or 0
    nvlink = Network.of(Cluster(hardware, 8 * devices), rings=True)
    short_s = 8 * (devices - 1) * 1.9e-6 + 7 * 4e-6
    assert float(all_gather_s(1e3, 8 * devices, 1, nvlink)) == pytest.approx(short_s, rel=1e-2)


@pytest.mark.parametrize("name", ["mi250x", "mi300x", "atlas-800t-a2"])
def test_what_nccl_does_is_priced_where_it_runs(name: str) -> None:
    made = Cluster(profile(name), 512)
    for size, stride in ((512, 1), (64, 8), (8, 1)):
        asked, plain = (all_gather_s(1e6, size, stride, Network.of(made, rings=rings)) for rings in (True, False))
        assert float(asked) == float(plain)


def test_other_nodes_are_further_ranks_of_a_ring_in_one_column_with_others() -> None:
    h100 = Network.of(gpu(latency_s=1e-3), rings=True)
    sizes, strides = np.array([8, 16, 16, 1]), np.array([1, 1, 8, 1])
    alone = [float(all_gather_s(1e6, int(size), int(stride), h100)) for size, stride in zip(sizes, strides, strict=True)]
    np.testing.assert_array_equal(all_gather_s(1e6, sizes, strides, h100), alone)


def test_fractions_belong_to_their_tiers() -> None:
    network = Network.of(ascend_a2(), intra_fraction=0.5, inter_fraction=0.25)
    assert float(all_gather_s(32 * GB, 32, 1, network)) == pytest.approx(3 / 20 / 0.25 + 4 / 18.3 / 0.5)


def test_the_site_replaces_the_outermost_rate() -> None:
    site = replace(ascend_a2(), inter_node_bytes_per_s=10e9, oversubscription=2.0)
    assert float(all_gather_s(32 * GB, 32, 1, Network.of(site))) == pytest.approx(3 / 5 + 4 / 18.3)


def test_three_tiers() -> None:
    # pairs at 100, nodes of 4 at 50, fabric at 10 GB/s; 8 ranks gather 8 GB:
    # fabric 1 x 1 GB, node 1 x 2 GB, pair 1 x 4 GB
    network = Network.of(
        cluster(
            NetworkTier("pair", Wiring.SWITCH, 2, 100e9, 0.0),
            NetworkTier("node", Wiring.SWITCH, 4, 50e9, 0.0),
            NetworkTier("fabric", Wiring.FABRIC, None, 10e9, 0.0),
            sequential=True,
        )
    )
    assert float(all_gather_s(8 * GB, 8, 1, network)) == pytest.approx(1 / 10 + 2 / 50 + 4 / 100)
    assert network.domain_devices == 4


AR8 = CollectiveCurve("all_reduce", 8, (8 * MIB, 32 * MIB, 64 * MIB), (200e-6, 500e-6, 1000e-6), "test")


def test_half_an_all_reduce_stands_for_a_gather() -> None:
    network = Network.of(ascend_a2([AR8]), call_latency_s=10e-6)
    sizes = np.array([8, 32, 64]) * MIB
    np.testing.assert_allclose(all_reduce_s(sizes, 8, 1, network), AR8.time_s)
    np.testing.assert_allclose(all_gather_s(sizes, 8, 1, network), [100e-6, 250e-6, 500e-6])
    np.testing.assert_allclose(reduce_scatter_s(sizes, 8, 1, network), [100e-6, 250e-6, 500e-6])


def test_a_call_of_its_own_adds_its_fixed_cost_where_nothing_was_measured_whatever_other_rows_cross() -> None:
    inside = CollectiveCurve("all_gather", 8, (1e6,), (100e-6,), "test")
    outside = CollectiveCurve("all_gather", 16, (1e6,), (300e-6,), "test")
    network = Network.of(
        cluster(
            NetworkTier("node", Wiring.SWITCH, 8, 100e9, 0.0, curves=(inside,)),
            NetworkTier("fabric", Wiring.FABRIC, None, 10e9, 0.0, curves=(outside,)),
            sequential=True,
        ),
        call_latency_s=10e-6,
    )
    sizes = np.array([8, 16])
    alone = [float(all_gather_s(1e6, int(size), 1, network)) for size in sizes]
    np.testing.assert_allclose(all_gather_s(1e6, sizes, 1, network), alone)


def test_a_curve_between_below_and_above_its_points() -> None:
    network = Network.of(ascend_a2([AR8]))
    # 16 MiB: half way between 8 and 32 in log, so sqrt(200 x 500); 640 MiB: the bandwidth of 64; 1 MiB: that of 8
    expected = [np.sqrt(200.0 * 500.0) * 1e-6, 10e-3, 200e-6 / 8]
    np.testing.assert_allclose(all_reduce_s(np.array([16, 640, 1]) * MIB, 8, 1, network), expected)


def test_below_its_points_a_curve_keeps_the_latency() -> None:
    # A shard of 0.183 MB over a link of 18.3 GB/s takes 10 us beside a step of 10 us, so 20 us by formula where 60 were measured.
    curve = CollectiveCurve("all_gather", 8, (0.183e6,), (60e-6,), "test")
    network = Network.of(ascend_a2([curve], latency_s=10e-6))
    # a tenth of the bytes: 11 us by formula, 60 x 11 / 20; next to none: 60 x 10 / 20
    np.testing.assert_allclose(all_gather_s(np.array([8 * 0.0183e6, 1e-3]), 8, 1, network), [33e-6, 30e-6])


def test_a_curve_of_another_group_size_goes_by_the_formula() -> None:
    # In a mesh a gather takes shard / link: 4 ranks with shards of 8 MiB wait as 8 ranks with such shards, which make 64 MiB.
    network = Network.of(ascend_a2([AR8]))
    assert float(all_gather_s(32 * MIB, 4, 1, network)) == pytest.approx(500e-6)
    # half the rate makes 64 MiB take what 128 MiB took
    halved = Network.of(ascend_a2([AR8]), intra_fraction=0.5)
    assert float(all_gather_s(64 * MIB, 8, 1, halved)) == pytest.approx(1000e-6)


def test_the_nearest_group_size_in_ratio_is_used() -> None:
    curves = [
        CollectiveCurve("all_gather", 2, (MIB,), (10e-6,), "test"),
        CollectiveCurve("all_gather", 8, (MIB,), (40e-6,), "test"),
    ]
    network = Network.of(ascend_a2(curves))
    # shards of 1 MiB for 2, 3, 5 and 8 ranks; sqrt(2 x 8) = 4 divides
    sizes = np.array([2, 3, 5, 8])
    np.testing.assert_allclose(all_gather_s(sizes * MIB, sizes, 1, network), [10e-6, 10e-6, 40e-6, 40e-6])


def test_a_curve_covers_the_tiers_inside() -> None:
    curve = CollectiveCurve("all_gather", 4, (GB,), (0.2,), "test")
    network = Network.of(
        cluster(
            NetworkTier("pair", Wiring.SWITCH, 2, 100e9, 0.0),
            NetworkTier("node", Wiring.SWITCH, 4, 50e9, 0.0, curves=(curve,)),
            NetworkTier("fabric", Wiring.FABRIC, None, 10e9, 0.0),
            sequential=True,
        )
    )
    # 8 ranks, 8 GB: fabric 1 GB, then 4 ranks with shards of 2 GB, twice the curve's
    assert float(all_gather_s(8 * GB, 8, 1, network)) == pytest.approx(1 / 10 + 0.4)
    # a pair never leaves its own tier: 1 GB shard at 100 GB/s
    assert float(all_gather_s(2 * GB, 2, 1, network)) == pytest.approx(1 / 100)


def test_a_measured_all_to_all_takes_what_stays_inside() -> None:
    curve = CollectiveCurve("all_to_all", 8, (GB,), (0.1,), "test")
    network = Network.of(ascend_a2([curve]))
    assert float(all_to_all_s(GB, 8, 1, network)) == pytest.approx(0.1)
    # 16 ranks with 2 GB: 1 GB inside as measured, 1 GB through the NIC
    assert float(all_to_all_s(2 * GB, 16, 1, network)) == pytest.approx(0.1 + 1 / 20)


def test_a_smaller_all_to_all_goes_by_the_formula() -> None:
    # 4 ranks with 0.5 GB put 0.125 GB on every link, as 8 ranks with 1 GB do
    network = Network.of(ascend_a2([CollectiveCurve("all_to_all", 8, (GB,), (0.1,), "test")]))
    assert float(all_to_all_s(GB / 2, 4, 1, network)) == pytest.approx(0.1)


def test_a_larger_group_than_measured_adds_its_steps() -> None:
    # a switch of 16, measured with 4: log2(16 / 4) = 2 more steps of 3 us; 15 shards at the time of 3, 5 times as many bytes
    curve = CollectiveCurve("all_gather", 4, (MIB,), (100e-6,), "test")
    tier = NetworkTier("switch", Wiring.SWITCH, None, 100e9, 3e-6, curves=(curve,))
    network = Network.of(cluster(tier, sequential=True))
    assert float(all_gather_s(16 * MIB, 16, 1, network)) == pytest.approx(500e-6 + 6e-6)


def test_a_curve_holds_the_latencies_of_the_tiers_inside() -> None:
    curve = CollectiveCurve("all_gather", 4, (MIB,), (100e-6,), "test")
    pair = NetworkTier("pair", Wiring.SWITCH, 2, 100e9, 7e-6)
    network = Network.of(cluster(pair, NetworkTier("node", Wiring.SWITCH, None, 50e9, 7e-6, curves=(curve,)), sequential=True))
    assert float(all_gather_s(4 * MIB, 4, 1, network)) == pytest.approx(100e-6)


@pytest.mark.parametrize(("wiring", "rate"), [(Wiring.SWITCH, 50e9), (Wiring.FABRIC, 20e9)])
def test_an_only_tier_is_a_fabric_or_a_node(wiring: Wiring, rate: float) -> None:
    only = cluster(NetworkTier("only", wiring, None, 100e9, 0.0), sequential=True)
    network = Network.of(only, intra_fraction=0.5, inter_fraction=0.2)
    assert float(all_gather_s(GB, 2, 1, network)) == pytest.approx(GB / 2 / rate)


def test_a_larger_message_measured_faster_takes_the_slower_time() -> None:
    curve = CollectiveCurve("all_gather", 8, (MIB, 2 * MIB), (170e-6, 150e-6), "test")
    assert float(all_gather_s(16 * MIB, 8, 1, Network.of(ascend_a2([curve])))) == pytest.approx(170e-6)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (replace(gpu(), oversubscription=0.0), "cluster.oversubscription is 0.0, must be a positive finite number"),
        (replace(gpu(), inter_node_bytes_per_s=-1.0), "cluster.inter_node_bytes_per_s is -1.0"),
        (cluster(sequential=True), "tiers is empty"),
        (cluster(NetworkTier("m", Wiring.MESH, 8, 1e9, 0.0), sequential=True), "tier 'm': link_bytes_per_s is missing"),
        (cluster(NetworkTier("s", Wiring.SWITCH, 8, 0.0, 0.0), sequential=True), "tier 's': bandwidth is 0.0"),
        (ascend_a2([replace(AR8, group_size=1)]), "measured all_reduce: group_size is 1, must be at least 2"),
        (ascend_a2([replace(AR8, time_s=(0.0, 1.0, 2.0))]), "measured all_reduce: shortest time is 0.0"),
    ],
)
def test_a_network_without_rates_is_refused(broken: Cluster, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Network.of(broken)
