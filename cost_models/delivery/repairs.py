"""Nodes in repair, the spares that replace them, and a job without enough nodes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from documents.late_methods import dataclass

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Supply:
    """Loss of a job from missing nodes, in the long run.

    ``waiting`` is the fraction of time without enough nodes to run. ``missing`` is the further loss from running with fewer
    replicas. ``mean_in_repair`` is a number of nodes.
    """

    waiting: float
    missing: float
    mean_in_repair: float

    @property
    def rate(self) -> float:
        """Remaining fraction of the rate of a job that always has its nodes."""
        return 1.0 - self.waiting - self.missing


def in_repair(birth_per_s: Floats, repair_s: float) -> Floats:
    """Stationary probabilities of 0, 1, 2, ... nodes in repair, ``[k + 1]``.

    Nodes are repaired in parallel. If no failure strikes a job that waits, the probabilities depend only on the mean repair time,
    whatever its distribution (Erlang's loss formula).

    Parameters
    ----------
    birth_per_s : ``[k]``
        Rate at which nodes leave while 0, 1, ... are in repair.
    repair_s
        Mean time until a node is back.
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
    """Loss of a job with ``num_spares`` spare nodes.

    A job that is not elastic waits while more nodes are in repair than there are spares. An elastic job continues with its whole
    data-parallel replicas, until it has none. Each missing node costs at least one replica.

    Parameters
    ----------
    node_failures_per_s
        Rate at which nodes of the whole job leave for repair, at full size.
    repair_s
        Mean time until a node is back.
    replicas_per_node
        Below 1 if a replica spans nodes.
    """
    if node_failures_per_s <= 0.0 or repair_s <= 0.0:
        return Supply(0.0, 0.0, 0.0)
    lost_each = max(replicas_per_node, 1.0)
    most_missing = math.ceil(num_replicas / lost_each) if elastic else 1
    missing = np.arange(1, most_missing + 1)
    share = np.clip(1.0 - missing * lost_each / num_replicas, 0.0, 1.0) if elastic else np.zeros(1)
    rates = np.concatenate([np.full(num_spares + 1, 1.0), share])  # rate with 0 ... spares + most_missing nodes in repair
    probability = in_repair(node_failures_per_s * rates[:-1], repair_s)
    count = np.arange(len(rates))
    waiting = float(probability[rates == 0.0].sum())
    return Supply(
        waiting=waiting,
        missing=float((probability * (1.0 - rates)).sum()) - waiting,
        mean_in_repair=float((probability * count).sum()),
    )
