"""Time of collectives on a tiered network.

Every function takes the columns ``size`` and ``stride`` of a group (``cost_models.network.rank_placement``): its number of
ranks, and the rank distance between neighbours. Functions are elementwise over arrays that broadcast. A group of one, or a
message of no bytes, takes exactly 0.

A group of g ranks has m_i members in its domain of tier i, m_0 = 1. The tier joins n_i = m_i / m_(i-1) blocks. r_i is the
rate of one device through the tier: the links to n_i - 1 peers in a full mesh, at most the tier's bandwidth. Time of one
all-gather to S bytes on the slowest rank:

- tier after tier (HCCL), the outermost first: the sum of (n_i - 1) S / m_i / r_i  [hccl-doc, Mesh and NHR]
- pipelined (NCCL): one ring over all tiers. Each of the m_(i-1) ranks of a block carries its part of the data that leaves
  the block: the largest of (g - 1)/g S / (m_(i-1) r_i), hence min(NVLink, NIC x members in the node)
  [nccl-tests, PERFORMANCE.md]

Each step adds a latency: one step in a mesh, ceil(log2 n_i) in a switch or fabric (recursive doubling [thakur2005,
section 3], NHR [hccl-doc]). NCCL gathers and scatters over several nodes in a ring: one step to each other rank, n - 1 of n nodes
over the network, in the faster of two protocols. With one rank a node it has PAT too, whose steps double, with a linear part.
Its all-reduce has trees [nccl, tuning.cc]. Rings are priced where the network asks for them (``Network.rings``). Inside one node
a doubling is priced, which takes at most 14 us less than a ring of 8; in a domain of 72 its seven steps take 24 us, as NCCL's
NVLS does (25 us, however many ranks).

Left out: NCCL's third protocol (LL), which has half the rate and at most 20 GB/s of a node; reduction arithmetic, contention
between groups, congestion inside a fabric. Each device has its own port in every tier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.network.rank_placement import crossed_tier, domains_spanned
from cost_models.network.tiers import ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, Network, Tier, ceil_log2
from hardware_profiles.schema import Wiring

Floats = NDArray[np.float64]
Phases = tuple[Floats, NDArray[np.bool_]]  # seconds, and whether they come from a measurement

# LL128 over Simple, the protocol of the profiles' latencies: steps in a node, over the network, there with one rank a node, and
# the rate [nccl, tuning.cc]
LL128_INNER_STEP, LL128_NETWORK_STEP, LL128_LONE_STEP, LL128_RATE = 1.9 / 3.4, 4.0 / 14.0, 8.5 / 14.0, 0.92
# PAT over a network step of Simple: a doubling, each rank, and the rate [nccl, tuning.cc]
PAT_DOUBLING, PAT_RANK, PAT_RATE = 1.0 / 3.5, 2.8 / 14.0, 0.75


def all_gather_s(bytes_total: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Floats:
    """Seconds of an all-gather; ``bytes_total`` is what a rank holds afterwards; elementwise.

    Includes the fixed cost of a call, unless a measured curve already covers it [hccl-doc]; [thakur2005, section 3.1].
    """
    parts = _gather(ALL_GATHER, bytes_total, size, stride, network, _is_ring(size, stride, network))
    return _single_call_s(parts, bytes_total, size, network)


def reduce_scatter_s(bytes_total: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Floats:
    """Seconds of a reduce-scatter; ``bytes_total`` is what a rank holds before; elementwise.

    It is an all-gather backwards [hccl-doc]. The sums themselves are free.
    """
    parts = _gather(REDUCE_SCATTER, bytes_total, size, stride, network, _is_ring(size, stride, network))
    return _single_call_s(parts, bytes_total, size, network)


def hybrid_scatter_s(
    bytes_total: ArrayLike, shards: ArrayLike, copies: ArrayLike, stride: ArrayLike, network: Network, *, own_stream: bool
) -> tuple[Floats, Floats]:
    """Seconds to reduce over copies of groups of shards, and seconds of it that run beside; elementwise.

    A reduce-scatter in each group, then an all-reduce of a rank's shard over the ranks that hold the same one in other groups.
    Groups are consecutive, so that shards stay in the fast tier [pytorch-fsdp, section 3.2.2]. If the all-reduce has a stream of
    its own, it runs beside the gathers and scatters of other layers; it has its own links too where they stay in one domain, and
    it leaves it with every step.

    Parameters
    ----------
    bytes_total
        What a rank holds before.
    own_stream
        Whether the all-reduce does not wait in line with the other collectives.
    """
    shard, apart = np.asarray(bytes_total) / np.asarray(shards), np.asarray(stride) * np.asarray(shards)
    scatter = reduce_scatter_s(bytes_total, shards, stride, network)
    reduce = all_reduce_s(shard, copies, apart, network)
    stays = domains_spanned(shards, stride, network.domain_devices) == 1
    leaves = domains_spanned(copies, apart, network.domain_devices) == copies
    beside = np.where(own_stream & stays & leaves, reduce, 0.0)
    return scatter + reduce - beside, beside


def all_reduce_s(bytes_total: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Floats:
    """Seconds of an all-reduce; ``bytes_total`` is what a rank holds before and afterwards; elementwise.

    It is a reduce-scatter, then an all-gather, with the fixed cost of one call [thakur2005, section 4.5]. Two A2 nodes of 8 with
    18.3 GB/s a link and 20 GB/s a NIC: 1 / (1/73.2 + 1/160) = 50.2 GB/s of message [hcomm]. Too slow for messages of a few
    hundred KB, for which libraries switch to one-shot algorithms.
    """
    scatter_s, scatter_measured = _gather(REDUCE_SCATTER, bytes_total, size, stride, network)
    if network.symmetric:
        return _single_call_s((2.0 * scatter_s, scatter_measured), bytes_total, size, network)
    gather_s, gather_measured = _gather(ALL_GATHER, bytes_total, size, stride, network)
    return _single_call_s((scatter_s + gather_s, scatter_measured & gather_measured), bytes_total, size, network)


def all_to_all_s(bytes_per_rank: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Floats:
    """Seconds of an all-to-all in which a rank holds ``bytes_per_rank``, its own share included; elementwise.

    Direct sends: (m_i - m_(i-1)) / g of the bytes cross tier i through the rank's own port, tier after tier (HCCL,
    inside the node first) or all tiers at once (NCCL). Steps: one in a mesh, ceil(log2 n) in a switch, n - 1 in a fabric
    (pairwise) [hccl-doc, Pairwise]. All ranks hold equal bytes; the caller applies any skew.

    Notes
    -----
    Exact for direct sends over uncontended ports. The n - 1 pairwise steps make it latency-bound for small messages in a fabric.
    """
    return _single_call_s(_exchange(bytes_per_rank, size, stride, network), bytes_per_rank, size, network)


def send_recv_s(bytes_sent: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Floats:
    """Seconds of one message between neighbours of a chain or ring, over its slowest link; elementwise.

    Pipeline stages: ``size`` pp, ``stride`` tp cp dp [megatron-0.12, p2p_communication.py]. Ring attention: ``size``
    cp, ``stride`` tp. A mesh gives a pair one link. Both directions of a link run at once.
    """
    tiers = network.tiers
    bytes_sent, size = np.asarray(bytes_sent, dtype=np.float64), np.asarray(size)
    tier = crossed_tier(size, stride, [t.domain_devices for t in tiers])
    s_per_byte = np.array([1.0 / (t.rate(1.0) * t.rate_fraction) for t in tiers])
    latency_s = np.array([t.latency_s for t in tiers]) + network.call_latency_s
    return np.where((size > 1) & (bytes_sent > 0), bytes_sent * s_per_byte[tier] + latency_s[tier], 0.0)


def _single_call_s(parts: Phases, message_bytes: ArrayLike, size: ArrayLike, network: Network) -> Floats:
    """Seconds of a collective as a call of its own; measured curves already contain the fixed cost of a call.

    ``parts`` are the seconds of its phases, and whether a measurement covers the innermost of them.
    """
    steps_s, measured = parts
    call_s = np.where(measured, 0.0, network.call_latency_s)
    return np.where((np.asarray(size) > 1) & (np.asarray(message_bytes) > 0), steps_s + call_s, 0.0)


def _is_ring(size: ArrayLike, stride: ArrayLike, network: Network) -> NDArray[np.bool_]:
    """Whether NCCL gathers the group over several nodes; elementwise [nccl, tuning.cc].

    Where NVLink joins nodes, its domain is the node.
    """
    if not network.rings or network.domain_devices is None:
        return np.zeros((), dtype=np.bool_)
    return np.asarray(domains_spanned(size, stride, network.domain_devices) > 1)


def _gather(
    op: str,
    bytes_total: ArrayLike,
    size: ArrayLike,
    stride: ArrayLike,
    network: Network,
    is_ring: NDArray[np.bool_] | bool = False,
) -> Phases:
    """Seconds of the phases of an all-gather or reduce-scatter, and whether a measurement covers the innermost.

    Parameters
    ----------
    op
        ``ALL_GATHER`` or ``REDUCE_SCATTER``: selects the measured curve.
    is_ring
        Where the ranks pass on one after the other; elsewhere the blocks of a tier double.
    """
    total, size, stride, is_ring = np.broadcast_arrays(*_columns(bytes_total, size, stride), is_ring)
    elapsed = _Elapsed(network, total.shape, is_ring)
    blocks_below = size  # blocks after the gathers of the inner tiers
    for tier in network.tiers:
        domains = domains_spanned(size, stride, tier.domain_devices)
        blocks = blocks_below / domains
        crossing = blocks > 1.0
        if crossing.any():
            members = size / domains
            if curve := tier.curves.get(op):
                shard = total[crossing] / members[crossing]
                elapsed.replace(crossing, curve.time_s(shard, members[crossing], tier))
            else:
                if network.sequential:
                    received = (blocks - 1.0) * total / members
                else:
                    received = (1.0 - 1.0 / size) * total * blocks_below / size
                steps = np.where(is_ring, blocks_below - domains, tier.gather_steps(blocks))
                elapsed.add(crossing, received / (tier.rate(blocks - 1.0) * tier.rate_fraction), steps, tier)
        blocks_below = domains
    return elapsed.steps_s, elapsed.measured


def _exchange(bytes_per_rank: ArrayLike, size: ArrayLike, stride: ArrayLike, network: Network) -> Phases:
    """Seconds of the phases of an all-to-all, and whether a measurement covers the innermost."""
    held, size, stride = _columns(bytes_per_rank, size, stride)
    elapsed = _Elapsed(network, held.shape)
    members_below = np.ones_like(size)
    for tier in network.tiers:
        members = size / domains_spanned(size, stride, tier.domain_devices)
        peers = members - members_below
        crossing = peers > 0.0
        if crossing.any():
            if curve := tier.curves.get(ALL_TO_ALL):
                kept_inside = held[crossing] * members[crossing] / size[crossing]
                elapsed.replace(crossing, curve.time_s(kept_inside, members[crossing], tier))
            else:
                steps = _exchange_steps(tier, members / members_below)
                elapsed.add(crossing, held * peers / size / (tier.rate(peers) * tier.rate_fraction), steps, tier)
        members_below = members
    return elapsed.steps_s, elapsed.measured


def _exchange_steps(tier: Tier, blocks: Floats) -> Floats:
    """Latency steps of an all-to-all among ``blocks`` of one tier; elementwise [hccl-doc, Pairwise].

    A mesh sends to all peers at once, a switch uses doubling, a fabric exchanges in pairs.
    """
    if tier.wiring is Wiring.MESH:
        return np.ones_like(blocks)
    return ceil_log2(blocks) if tier.wiring is Wiring.SWITCH else np.ceil(blocks) - 1.0


def _columns(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values)))


class _Elapsed:
    """Accumulates phases from the inside out: transfers in sequence or at once, latencies always in sequence.

    Rows of ``is_ring`` take the fastest that NCCL has for the group.
    """

    def __init__(self, network: Network, shape: tuple[int, ...], is_ring: NDArray[np.bool_] | bool = False) -> None:
        self._network = network
        self._is_ring = is_ring
        self._transfer_s = np.zeros(shape)
        self._inner_latency_s = np.zeros(shape)
        self._network_steps = np.zeros(shape)  # in the outermost tier
        self._is_lone = np.ones(shape, dtype=np.bool_)  # no tier inside joins ranks
        self.measured = np.zeros(shape, dtype=np.bool_)

    def add(self, crossing: NDArray[np.bool_], transfer_s: Floats, steps: Floats, tier: Tier) -> None:
        """Add one phase for the rows that cross this tier."""
        crossed_s = transfer_s * crossing
        combine = np.add if self._network.sequential else np.maximum
        combine(self._transfer_s, crossed_s, out=self._transfer_s)
        if tier is self._network.tiers[-1]:
            self._network_steps += steps * crossing
        else:
            self._inner_latency_s += steps * crossing * tier.latency_s
            self._is_lone &= ~crossing

    def replace(self, crossing: NDArray[np.bool_], measured_s: Floats) -> None:
        """Use a measured time for the rows that cross this tier. It includes all tiers inside."""
        self._transfer_s[crossing] = measured_s
        self._inner_latency_s[crossing] = self._network_steps[crossing] = 0.0
        self._is_lone &= ~crossing
        self.measured |= crossing

    @property
    def steps_s(self) -> Floats:
        step_s = self._network.tiers[-1].latency_s
        seconds = self._transfer_s + (self._inner_latency_s + self._network_steps * step_s)
        if not np.any(self._is_ring):
            return seconds
        return np.where(self._is_ring, np.minimum(seconds, np.minimum(self._ll128_s(step_s), self._pat_s(step_s))), seconds)

    def _ll128_s(self, step_s: float) -> Floats:
        """Seconds of a ring by LL128; infinite where it would leave NVLink inside a node. ``step_s``: one of Simple."""
        steps = self._network_steps * np.where(self._is_lone, LL128_LONE_STEP, LL128_NETWORK_STEP)
        seconds = self._transfer_s / LL128_RATE + (self._inner_latency_s * LL128_INNER_STEP + steps * step_s)
        return np.where(self._is_lone | self._network.short_rings, seconds, np.inf)

    def _pat_s(self, step_s: float) -> Floats:
        """Seconds of PAT; infinite but with one rank a node. ``step_s``: a step of a ring by Simple."""
        ranks = self._network_steps + 1.0
        steps = np.floor(np.log2(ranks)) * PAT_DOUBLING + ranks * PAT_RANK
        return np.where(self._is_lone, self._transfer_s / PAT_RATE + steps * step_s, np.inf)
