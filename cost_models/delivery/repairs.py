"""Nodes in repair, the spares that stand in for them, and what a job does when there are none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Supply:
    """What repairs leave of a job, in the long run.

    ``waiting`` is the fraction of time without enough nodes to run at all, ``missing`` what running with fewer replicas loses
    on top; ``mean_in_repair`` counts nodes.
    """

    waiting: float
    missing: float
    mean_in_repair: float

    @property
    def rate(self) -> float:
        """Of a job that always has its nodes: the fraction that is left."""
        return 1.0 - self.waiting - self.missing


def in_repair(birth_per_s: Floats, repair_s: float) -> Floats:
    """Stationary probabilities of 0, 1, 2, ... nodes in repair.

    Nodes are repaired beside each other. Where no failure strikes a job that waits, the probabilities depend on the mean repair
    alone, however repairs are distributed (Erlang's loss formula).

    Parameters
    ----------
    birth_per_s : Floats, ``[k]``, failures a second
        That send a node away while 0, 1, ... are in repair; one entry fewer than the result.
    repair_s : float, seconds
        Mean time until a node is back.

    Returns
    -------
    Floats, ``[k + 1]``
        They sum to 1.
    """
    with np.errstate(divide="ignore"):
        steps = np.log(birth_per_s * repair_s) - np.log(np.arange(1, len(birth_per_s) + 1))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def supply(
    num_spares: int,
    node_failures_per_s: float,
    repair_s: float,
    *,
    num_replicas: int = 1,
    replicas_per_node: float = 1.0,
    elastic: bool = False,
) -> Supply:
    """What ``num_spares`` nodes beside a job are worth.

    A job that is not elastic waits while more nodes are in repair than there are spares. An elastic one goes on with the data
    parallel replicas that are whole, each missing node costing one at least, until it has none.

    Parameters
    ----------
    num_spares : int
        Nodes that stand by.
    node_failures_per_s : float, failures a second
        Of the whole job at full size, that send a node away.
    repair_s : float, seconds
        Mean time until a node is back.
    num_replicas : int
        Data-parallel replicas of the plan.
    replicas_per_node : float
        That a node holds: below 1 where a replica spans nodes.
    elastic : bool
        Whether the job goes on with fewer.

    Returns
    -------
    Supply
    """
    if node_failures_per_s <= 0.0 or repair_s <= 0.0:
        return Supply(0.0, 0.0, 0.0)
    lost_each = max(replicas_per_node, 1.0)
    most_missing = math.ceil(num_replicas / lost_each) if elastic else 1
    missing = np.arange(1, most_missing + 1)
    share = np.clip(1.0 - missing * lost_each / num_replicas, 0.0, 1.0) if elastic else np.zeros(1)
    rates = np.concatenate([np.full(num_spares + 1, 1.0), share])  # of 0 ... spares + most_missing in repair
    probability = in_repair(node_failures_per_s * rates[:-1], repair_s)
    count = np.arange(len(rates))
    waiting = float(probability[rates == 0.0].sum())
    return Supply(
        waiting=waiting,
        missing=float((probability * (1.0 - rates)).sum()) - waiting,
        mean_in_repair=float((probability * count).sum()),
    )
