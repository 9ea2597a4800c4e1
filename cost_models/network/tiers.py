"""The network of a cluster as collectives see it: tiers with this site's rates, and measured curves.

``rate_fraction`` is the fraction of a tier's profile rate that training reaches: the calibrated efficiency times the
site's fabric rate over the profile's. It scales formulas and the bytes of measured curves, never latencies: curves are
measured on an idle machine, and concurrent kernels and strided buffers leave this fraction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.shapes.workload import Cluster, WorkloadError
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles.schema import CollectiveCurve, NetworkTier, Wiring

Floats = NDArray[np.float64]

ALL_GATHER = "all_gather"
REDUCE_SCATTER = "reduce_scatter"
ALL_REDUCE = "all_reduce"
ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True)
class Tier:
    """One level of the network. Rates are of one device and one direction, before ``rate_fraction``."""

    wiring: Wiring
    domain_devices: int | None
    bandwidth_bytes_per_s: float
    link_bytes_per_s: float
    latency_s: float  # latency of one step of a collective
    rate_fraction: float
    curves: Mapping[str, MeasuredCollective]

    def rate(self, peers: ArrayLike) -> Floats:
        """Bandwidth of one device to ``peers`` others, in one direction, before ``rate_fraction``; elementwise. [bytes/s]

        In a mesh it is the sum of the links to them, at most the tier's bandwidth [hccl-doc, Mesh].
        """
        if self.wiring is not Wiring.MESH:
            return np.asarray(self.bandwidth_bytes_per_s, dtype=np.float64)
        return np.minimum(np.maximum(peers, 1.0) * self.link_bytes_per_s, self.bandwidth_bytes_per_s)

    def gather_steps(self, blocks: Floats) -> Floats:
        """Latency steps of an all-gather or reduce-scatter among ``blocks``; elementwise [hccl-doc, Mesh and NHR].

        One in a mesh, else ceil(log2).
        """
        return np.ones_like(blocks) if self.wiring is Wiring.MESH else ceil_log2(blocks)


@dataclass(frozen=True)
class Network:
    """Tiers of a cluster from the inside out, with the rates that collectives reach."""

    tiers: tuple[Tier, ...]
    sequential: bool
    call_latency_s: float
    symmetric: bool  # all-gather and reduce-scatter take the same time
    rings: bool = False  # gathers and scatters over several nodes are NCCL's rings, or its PAT
    short_rings: bool = False  # rings through several ranks of a node may take its LL128

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        *,
        intra_fraction: float = 1.0,
        inter_fraction: float = 1.0,
        call_latency_s: float = 0.0,
        rings: bool = False,
    ) -> Network:
        """The cluster's network with calibrated efficiencies.

        ``inter_fraction`` is the fraction of the profile's rate that collectives reach in the outermost tier (also a single
        tier, if it is a fabric). ``intra_fraction`` is the same for all tiers inside it. The cluster's ``time_factor`` scales
        all times. ``rings``: whether gathers are priced as NCCL's rings where NCCL runs; it has LL128 where no ring in a node
        leaves NVLink [nccl, tuning.cc].

        Raises ``WorkloadError`` for a profile without tiers, and for rates, factors or oversubscriptions that are not positive.
        """
        profile = cluster.profile
        if not profile.tiers:
            raise WorkloadError(
                Sentence("hardware profile '{}': tiers is empty, so devices have no link to each other", profile.name)
            )
        _require_positive("cluster.oversubscription", cluster.oversubscription)
        _require_positive("cluster.time_factor", cluster.time_factor)
        if cluster.inter_node_bytes_per_s is not None:
            _require_positive("cluster.inter_node_bytes_per_s", cluster.inter_node_bytes_per_s)
        tiers = []
        for index, tier in enumerate(profile.tiers):
            _require_positive(Sentence("tier '{}': bandwidth", tier.name), tier.bandwidth_bytes_per_s)
            _require_positive(Sentence("tier '{}': oversubscription", tier.name), tier.oversubscription)
            outermost = index == len(profile.tiers) - 1
            fraction = inter_fraction if outermost and (index > 0 or tier.wiring is Wiring.FABRIC) else intra_fraction
            if outermost:
                site = cluster.inter_node_bytes_per_s or tier.bandwidth_bytes_per_s
                fraction *= site / tier.bandwidth_bytes_per_s / cluster.oversubscription
            domain = None if outermost else tier.domain_devices
            tiers.append(_tier(tier, domain, fraction, cluster.time_factor))
        return cls(
            tiers=tuple(tiers),
            sequential=profile.sequential_tiers,
            call_latency_s=call_latency_s * cluster.time_factor,
            rings=rings and profile.has_nccl,
            short_rings=not profile.has_pcie_tier,
            symmetric=all(t.curves.get(ALL_GATHER) is t.curves.get(REDUCE_SCATTER) for t in tiers),
        )

    @property
    def domain_devices(self) -> int | None:
        """Devices of a domain of the outermost fabric: a node, or a supernode. ``None``: a single tier holds all."""
        return self.tiers[-2].domain_devices if len(self.tiers) > 1 else None


@dataclass(frozen=True)
class MeasuredCollective:
    """Measured times of one operation inside one tier, for one or more group sizes in increasing order.

    ``message_bytes`` is one shard for gathers, and all that a rank holds for all-to-alls (as in ``schema.CollectiveCurve``).
    """

    group_sizes: Floats
    message_bytes: tuple[Floats, ...]
    log_bytes: tuple[Floats, ...]
    log_time_s: tuple[Floats, ...]
    is_gather: bool

    def time_s(self, message_bytes: Floats, members: Floats, tier: Tier) -> Floats:
        """Seconds of one call among ``members`` of one domain, from the curve of the nearest group size (in ratio); elementwise.

        T(m, x) = T_measured(m0, x b(m) / (b(m0) f)) + max(0, a(m) - a(m0)) with the formula's seconds a byte b and latency a
        and the tier's ``rate_fraction`` f. At m = m0 and f = 1 this is the measurement itself. For large messages it is
        T_measured times the ratio of the formulas. More bytes are never faster. Interpolation is log-log between points. Above
        the largest point its bandwidth holds; below the smallest, its time scales with the formula. The fixed cost of a call is
        included.

        Notes
        -----
        Validity: the curve is measured on an idle machine; ``rate_fraction`` stands for the losses under training.
        """
        nearest = np.searchsorted(np.sqrt(self.group_sizes[1:] * self.group_sizes[:-1]), members)
        result = np.zeros(np.shape(members))
        for index, size in enumerate(self.group_sizes):
            rows = nearest == index
            if not rows.any():
                continue
            m = members[rows]
            s_per_byte, steps = self._s_per_byte(size, tier), tier.gather_steps(size)
            equivalent = message_bytes[rows] * self._s_per_byte(m, tier) / (s_per_byte * tier.rate_fraction)
            smallest, largest = self.message_bytes[index][[0, -1]]
            inside = np.clip(equivalent, smallest, largest)
            measured = np.exp(np.interp(np.log(inside), self.log_bytes[index], self.log_time_s[index]))
            latency_s = steps * tier.latency_s
            below = (latency_s + np.minimum(equivalent, smallest) * s_per_byte) / (latency_s + smallest * s_per_byte)
            extra_steps = np.maximum(tier.gather_steps(m) - steps, 0.0)
            result[rows] = measured * below * np.maximum(equivalent / largest, 1.0) + extra_steps * tier.latency_s
        return result

    def _s_per_byte(self, members: Floats, tier: Tier) -> Floats:
        """Seconds a byte by the formula, at the tier's full rate; elementwise."""
        peers = members - 1.0
        return (peers if self.is_gather else peers / members) / tier.rate(peers)


def ceil_log2(blocks: Floats) -> Floats:
    """Steps of a doubling algorithm over at least 1 ``blocks``, a ratio of counts; elementwise.

    If rounding put the ratio just above a power of two, the next lower number is returned.
    """
    # The binary exponent of a number just below a power of two is its ceil(log2), computed several times faster.
    return np.frexp(blocks * (1.0 - 1e-12))[1].astype(np.float64)


def _tier(tier: NetworkTier, domain_devices: int | None, rate_fraction: float, time_factor: float) -> Tier:
    """One tier of the profile with this site's rates, and its measured curves by operation.

    Raises ``WorkloadError`` for a mesh without a link rate, and for a curve with a group of one, no message or no time.
    """
    if tier.wiring is Wiring.MESH and tier.link_bytes_per_s is None:
        raise WorkloadError(Sentence("tier '{}': link_bytes_per_s is missing, a mesh needs the rate to one peer", tier.name))
    for curve in tier.curves:
        if curve.group_size < 2:
            raise WorkloadError(
                Sentence("tier '{}': measured {}: group_size is {}, must be at least 2", tier.name, curve.op, curve.group_size)
            )
        _require_positive(
            Sentence("tier '{}': measured {}: smallest message", tier.name, curve.op), min(curve.message_bytes, default=0.0)
        )
        _require_positive(Sentence("tier '{}': measured {}: shortest time", tier.name, curve.op), min(curve.time_s, default=0.0))
    link = tier.link_bytes_per_s or tier.bandwidth_bytes_per_s
    curves: dict[str, MeasuredCollective] = {}
    # Half an all-reduce substitutes for a gather without measurements.
    halves = [
        CollectiveCurve(
            op=ALL_GATHER,
            group_size=curve.group_size,
            message_bytes=tuple(b / curve.group_size for b in curve.message_bytes),
            time_s=tuple(t / 2.0 for t in curve.time_s),
            source=curve.source,
        )
        for curve in tier.curves
        if curve.op == ALL_REDUCE
    ]
    half_all_reduce = _measured(halves, time_factor, is_gather=True)
    for op in (ALL_GATHER, REDUCE_SCATTER):
        measured = _measured([c for c in tier.curves if c.op == op], time_factor, is_gather=True) or half_all_reduce
        if measured is not None:
            curves[op] = measured
    exchange = _measured([c for c in tier.curves if c.op == ALL_TO_ALL], time_factor, is_gather=False)
    if exchange is not None:
        curves[ALL_TO_ALL] = exchange
    return Tier(
        wiring=tier.wiring,
        domain_devices=domain_devices,
        bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s / tier.oversubscription / time_factor,
        link_bytes_per_s=link / tier.oversubscription / time_factor,
        latency_s=tier.latency_s * time_factor,
        rate_fraction=rate_fraction,
        curves=curves,
    )


def _measured(curves: Sequence[CollectiveCurve], time_factor: float, *, is_gather: bool) -> MeasuredCollective | None:
    """Curves by group size. If a larger message was measured faster, the slower time of a smaller message is used."""
    points: dict[int, list[tuple[float, float]]] = {}
    for curve in curves:
        points.setdefault(curve.group_size, []).extend(zip(curve.message_bytes, curve.time_s, strict=True))
    if not points:
        return None
    sizes = sorted(points)
    columns = [np.array(sorted(points[size])).T for size in sizes]
    return MeasuredCollective(
        group_sizes=np.array(sizes, dtype=np.float64),
        message_bytes=tuple(column[0] for column in columns),
        log_bytes=tuple(np.log(column[0]) for column in columns),
        log_time_s=tuple(np.log(np.maximum.accumulate(column[1]) * time_factor) for column in columns),
        is_gather=is_gather,
    )


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise WorkloadError(Sentence("{} is {}, must be a positive finite number", name, value))
