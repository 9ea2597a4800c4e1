"""The part of their error that model shapes of one publication share: its site, its software, its way of measuring."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def shared_fraction(errors: Floats, groups: Sequence[Hashable], clusters: Sequence[Hashable]) -> float:
    """Intraclass correlation of the groups' mean errors within clusters, from 0 (nothing in common) to 1.

    With S_b and S_w the mean squares between and within clusters, and m groups in a mean one, (S_b - S_w) / (S_b + (m - 1) S_w)
    [donner1986]. It is 1 where nothing tells the two apart: with one cluster, or with one group in each.

    Parameters
    ----------
    errors : ``[run]``
    groups, clusters
        Those of each run. A group is of one cluster.
    """
    runs: dict[tuple[Hashable, Hashable], list[float]] = {}
    for error, group, cluster in zip(errors.tolist(), groups, clusters, strict=True):
        runs.setdefault((cluster, group), []).append(error)
    means: dict[Hashable, list[float]] = {}
    for (cluster, _), own in runs.items():
        means.setdefault(cluster, []).append(float(np.mean(own)))
    sizes = np.array([len(own) for own in means.values()], dtype=np.float64)
    total, number = float(sizes.sum()), len(sizes)
    if number < 2 or total == number:
        return 1.0
    overall = float(np.mean([mean for own in means.values() for mean in own]))
    between = sum(len(own) * (float(np.mean(own)) - overall) ** 2 for own in means.values()) / (number - 1)
    within = sum(float(((np.array(own) - np.mean(own)) ** 2).sum()) for own in means.values()) / (total - number)
    mean_size = (total - float((sizes**2).sum()) / total) / (number - 1)
    spread = between + (mean_size - 1.0) * within
    return min(max((between - within) / spread, 0.0), 1.0) if spread > 0.0 else 1.0


def effective_number(number: int, shared: float) -> float:
    """Independent groups that ``number`` of one cluster are worth: n / (1 + (n - 1) r), r the shared part [donner1986]."""
    return number / (1.0 + (number - 1) * shared)
