"""Mapping of process groups to the topology.

Ranks are numbered in Megatron's order tp-cp-ep-dp-pp, innermost first, and fill the cluster node by node
[megatron-0.12, parallel_state.py]. A group is therefore described by its size and the rank distance between neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.shapes.strategy import IntColumn, StrategyBatch
from documents.late_methods import dataclass

Floats = NDArray[np.float64]


class Group(NamedTuple):
    """Process groups of one kind, ``[n]``: ``size`` ranks, ``stride`` ranks apart."""

    size: IntColumn
    stride: IntColumn


@dataclass(frozen=True)
class RankGroups:
    """Every process group of a training rank.

    ``dp_cp`` is data parallelism with context parallelism folded in: the group of dense gradients and of the
    distributed optimizer. ``edp`` is the same for experts.
    """

    tp: Group
    cp: Group
    dp_cp: Group
    pp: Group
    ep: Group
    edp: Group


def rank_groups(batch: StrategyBatch) -> RankGroups:
    """Process groups of every strategy [megatron-0.12, parallel_state.py].

    Dense ranks are laid out tp, cp, dp, pp; expert ranks etp, ep, edp, pp over the same devices of a stage, hence
    ``etp ep edp = tp cp dp``. ``ep`` includes the expert-parallel ranks inside tp.

    Notes
    -----
    Validity: every group of a legal plan nests in the domains of the tiers. Rank files (placement by hand) are not modelled.
    """
    one = np.ones_like(batch.tp)
    stage = batch.tp * batch.cp * batch.dp
    expert_ranks = batch.etp * batch.ep
    return RankGroups(
        tp=Group(batch.tp, one),
        cp=Group(batch.cp, batch.tp),
        dp_cp=Group(batch.dp * batch.cp, batch.tp),
        pp=Group(batch.pp, stage),
        ep=Group(batch.ep, batch.etp),
        edp=Group(np.maximum(stage // expert_ranks, 1), expert_ranks),
    )


def copied_shards(batch: StrategyBatch) -> tuple[Group, Group]:
    """Groups that share one copy of sharded states, and groups of ranks with the same shard in other copies, ``[n]`` each.

    Shards are neighbours among the ranks that hold the same weights [pytorch-fsdp, section 3.2.2]. Without copies
    (``optimizer_shard_size``) the second groups have one rank.
    """
    ranks = batch.dp * batch.cp
    size = np.where((batch.zero_stage > 0) & (batch.optimizer_shard_size > 0), batch.optimizer_shard_size, ranks)
    return Group(size, batch.tp), Group(ranks // size, batch.tp * size)


def domains_spanned(size: ArrayLike, stride: ArrayLike, domain_devices: int | None) -> Floats:
    """Number of domains of ``domain_devices`` consecutive devices that one group spans, 1 to ``size``; elementwise.

    ``None`` is one domain that holds the whole cluster. Exact if group and domain nest, as every group of a legal plan does.
    Otherwise it is the fewest domains that hold the group: some groups then straddle one boundary more.
    """
    size, stride = np.asarray(size, dtype=np.float64), np.asarray(stride, dtype=np.float64)
    if domain_devices is None:
        return np.ones(np.broadcast_shapes(size.shape, stride.shape))
    return np.ceil(size / np.maximum(np.floor(domain_devices / stride), 1.0))


def members_per_domain(size: ArrayLike, stride: ArrayLike, domain_devices: int | None) -> Floats:
    """Number of members of one group that share a domain, 1 to ``size`` (``None``: all); elementwise.

    The mean if domains hold unequal numbers: 12 neighbours over nodes of 8 are 6 and 6.
    """
    return np.asarray(size, dtype=np.float64) / domains_spanned(size, stride, domain_devices)


def crossed_tier(size: ArrayLike, stride: ArrayLike, domains: Sequence[int | None]) -> NDArray[np.int64]:
    """Index of the innermost tier whose domain holds a whole group: the slowest link between its neighbours; elementwise.

    A group larger than all domains uses the last tier. A chain of pipeline stages that spans several nodes has neighbours in
    different nodes, even if some share one.

    Parameters
    ----------
    domains
        Devices of a domain of each tier, from the inside out.
    """
    outside = [domains_spanned(size, stride, domain) > 1.0 for domain in domains[:-1]]
    shape = np.broadcast_shapes(np.shape(size), np.shape(stride))
    return np.sum(outside, axis=0, dtype=np.int64) if outside else np.zeros(shape, dtype=np.int64)
