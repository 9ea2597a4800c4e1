"""Where the ranks of a process group sit on the topology.

Ranks are numbered in Megatron's order tp-cp-ep-dp-pp, innermost first, and fill the cluster node by node
[megatron-0.12, parallel_state.py]. A group is then its size and the rank distance between neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.shapes.strategy import IntColumn, StrategyBatch

Floats = NDArray[np.float64]


class Group(NamedTuple):
    """Process groups of one kind, one entry a strategy: ``size`` ranks, ``stride`` ranks apart."""

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
    """Groups of every strategy, ``[n]`` each [megatron-0.12, parallel_state.py].

    Dense ranks are laid out tp, cp, dp, pp; expert ranks etp, ep, edp, pp over the same devices of a stage, hence
    ``etp ep edp = tp cp dp``. ``ep`` counts the expert-parallel ranks inside tp too.

    Parameters
    ----------
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.

    Returns
    -------
    RankGroups
        Columns ``[n]`` of size and stride by kind of group.

    Notes
    -----
    Validity: every group of a legal plan nests in the domains of the tiers. Placement by hand (rank files) is not described.
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


def domains_spanned(size: ArrayLike, stride: ArrayLike, domain_devices: int | None) -> Floats:
    """Domains of ``domain_devices`` devices over which one group spreads, 1 to ``size`` (``None``: one domain).

    Exact where group and domain nest, as every group of a legal plan does; otherwise the fewest domains that hold
    the group, which ignores that some groups straddle one boundary more.

    Parameters
    ----------
    size : array of int
        Ranks of a group.
    stride : array of int
        Rank distance between neighbours of a group.
    domain_devices : int or None
        Devices of a domain that are numbered one after the other; ``None``: all of the cluster.

    Returns
    -------
    Floats, broadcast
        Domains, at least 1.
    """
    size, stride = np.asarray(size, dtype=np.float64), np.asarray(stride, dtype=np.float64)
    if domain_devices is None:
        return np.ones(np.broadcast_shapes(size.shape, stride.shape))
    return np.ceil(size / np.maximum(np.floor(domain_devices / stride), 1.0))


def members_per_domain(size: ArrayLike, stride: ArrayLike, domain_devices: int | None) -> Floats:
    """Members of one group that share a domain of ``domain_devices`` devices, 1 to ``size`` (``None``: all).

    The mean over the domains it touches where they do not share it evenly: 12 neighbours over nodes of 8 are 6 and 6.

    Parameters
    ----------
    size : array of int
        Ranks of a group.
    stride : array of int
        Rank distance between neighbours of a group.
    domain_devices : int or None
        Devices of a domain that are numbered one after the other; ``None``: all of the cluster.

    Returns
    -------
    Floats, broadcast
        Members; a fraction where domains do not share a group evenly.
    """
    return np.asarray(size, dtype=np.float64) / domains_spanned(size, stride, domain_devices)


def crossed_tier(size: ArrayLike, stride: ArrayLike, domains: Sequence[int | None]) -> NDArray[np.int64]:
    """Index of the innermost tier whose domain holds a whole group: the slowest link between its neighbours.

    ``domains`` are the tiers' devices from the inside out; a group larger than all of them uses the last. A chain of
    pipeline stages that spans several nodes has neighbours in different nodes, even where some share one.

    Parameters
    ----------
    size : array of int
        Ranks of a group.
    stride : array of int
        Rank distance between neighbours of a group.
    domains : sequence of int or None
        Devices of a domain of each tier, from the inside out.

    Returns
    -------
    int, broadcast
        Index into ``domains``.
    """
    outside = [domains_spanned(size, stride, domain) > 1.0 for domain in domains[:-1]]
    shape = np.broadcast_shapes(np.shape(size), np.shape(stride))
    return np.sum(outside, axis=0, dtype=np.int64) if outside else np.zeros(shape, dtype=np.int64)
