"""Clusters with round numbers, for tests of the network and of what is built on it."""

from collections.abc import Sequence

from cost_models.shapes.workload import Cluster
from hardware_profiles.schema import CollectiveCurve, HardwareProfile, NetworkTier, Status, Wiring


def cluster(*tiers: NetworkTier, sequential: bool, inter_node_bytes_per_s: float | None = None) -> Cluster:
    """4,096 devices joined by the given tiers."""
    profile = HardwareProfile(
        name="test",
        title="test",
        family="ascend" if sequential else "nvidia",
        status=Status.UNVALIDATED,
        device="test",
        matmul_flops_per_s={"bf16": 3e14},
        achievable_matmul_flops_per_s={"bf16": 2.5e14},
        vector_flops_per_s=2e13,
        num_matmul_cores=24,
        hbm_bytes=64e9,
        usable_hbm_bytes=60e9,
        hbm_bytes_per_s=1.6e12,
        host_link_bytes_per_s=25e9,
        context_bytes=1e9,
        communicator_bytes=4e8,
        tiers=tiers,
        devices_per_node=8,
        sequential_tiers=sequential,
    )
    return Cluster(profile, 4096, inter_node_bytes_per_s=inter_node_bytes_per_s)


def ascend_a2(curves: Sequence[CollectiveCurve] = (), *, latency_s: float = 0.0, link_bytes_per_s: float = 18.3e9) -> Cluster:
    """Nodes of 8 in a full mesh of 18.3 GB/s links, one 20 GB/s NIC a device, tier after tier [hcomm]."""
    mesh = NetworkTier("hccs", Wiring.MESH, 8, 7 * link_bytes_per_s, latency_s, link_bytes_per_s, curves=tuple(curves))
    return cluster(mesh, NetworkTier("roce", Wiring.FABRIC, None, 20e9, latency_s), sequential=True)


def gpu(*, nvlink: float = 300e9, nic: float = 25e9, latency_s: float = 0.0) -> Cluster:
    """Nodes of 8 behind a switch and one NIC a device, pipelined rings."""
    switch = NetworkTier("nvlink", Wiring.SWITCH, 8, nvlink, latency_s)
    return cluster(switch, NetworkTier("ib", Wiring.FABRIC, None, nic, latency_s), sequential=False)
