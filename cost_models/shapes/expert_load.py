"""Measured routing: load of expert-parallel ranks and bandwidth domains from token counts of a training log."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from documents.late_methods import dataclass

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertCounts:
    """Token copies that each routed expert received in a training log: one row a MoE layer, or one row for all.

    All rows have E entries and a positive sum. Experts are placed in order, E / n of them on each of n ranks
    [megatron-0.12, moe_layer.py]. A domain of consecutive ranks holds consecutive experts.
    """

    layers: tuple[tuple[float, ...], ...]

    @cached_property
    def _shares_before(self) -> Floats:
        """Share of a layer's copies that go to experts before each one, ``[layer, expert + 1]``."""
        counts = np.asarray(self.layers, dtype=np.float64)
        before = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
        shares: Floats = before / before[:, -1:]
        return shares

    def shares(self, num_parts: int) -> Floats:
        """Share of a layer's copies that each of ``num_parts`` equal groups of consecutive experts receives, ``[layer, part]``.

        A part is a rank, or a domain of ranks. Each row sums to 1.
        """
        num_experts = self._shares_before.shape[1] - 1
        return np.diff(self._shares_before[:, np.arange(num_parts + 1) * num_experts // num_parts], axis=1)

    def load_factor(self, num_parts: ArrayLike) -> Floats:
        """Factor on time: copies of the fullest of ``num_parts`` parts over the mean, averaged over the layers; elementwise.

        At least 1, which is balanced. Each layer waits for its own fullest part, so this is the mean of the maxima, not the
        maximum of the means.
        """
        return _for_each_distinct(num_parts, lambda parts: float(np.mean(parts * self.shares(parts).max(axis=1))))

    def peak_load_factor(self, num_parts: ArrayLike) -> Floats:
        """Factor on memory: the load factor of the most uneven layer, at least ``load_factor``; elementwise.

        No rank's sum over the layers exceeds it.
        """
        return _for_each_distinct(num_parts, lambda parts: float(np.max(parts * self.shares(parts))))

    def tokens_of_fullest_domain(self, num_domains: ArrayLike, top_k: int) -> Floats:
        """N times the share of tokens with an expert in the fullest of N domains, averaged over the layers; elementwise.

        Counts say how often each expert was chosen, not which experts were chosen together. A domain that receives the share q
        of all copies is treated as if q E of E equally likely experts were its own. That is uniform top-k without replacement
        for even counts, and k q copies in the mean for any counts. The result is between 1 and ``num_domains``.

        Notes
        -----
        Exact for even counts. Choices that are as random as their counts allow met up to 5 % fewer on counts of three models
        [esft; olmoe]; correlated choices meet fewer still.
        """
        num_experts = self._shares_before.shape[1] - 1

        def fullest(domains: int) -> float:
            held = num_experts * self.shares(domains).max(axis=1)
            return domains * float(np.mean(1.0 - share_missed(num_experts, held, top_k)))

        return _for_each_distinct(num_domains, fullest)

    def with_excess(self, factor: float) -> ExpertCounts:
        """Counts with ``factor`` times the deviation from balance: 1 changes nothing, 0 balances.

        Rows keep their sums. A large factor can make counts of the emptiest experts negative.
        """
        counts = np.asarray(self.layers, dtype=np.float64)
        mean = counts.mean(axis=1, keepdims=True)
        return ExpertCounts(tuple(map(tuple, (mean + factor * (counts - mean)).tolist())))


def share_missed(candidates: float, held: Floats, top_k: int) -> Floats:
    """Probability that none of ``top_k`` draws from ``candidates`` experts is among the ``held``; elementwise.

    C(A - c, k) / C(A, k) for A equally likely candidates, c held, k drawn without replacement. Fractions interpolate.
    """
    share = np.ones_like(held)
    for i in range(top_k):
        share = share * np.maximum(candidates - held - i, 0.0) / max(candidates - i, 1.0)
    return share


def _for_each_distinct(column: ArrayLike, of: Callable[[int], float]) -> Floats:
    """Apply a function of one integer to each entry of a column, shaped like the column."""
    # Strategies have a handful of degrees, so each is computed once.
    values = np.asarray(column)
    distinct, index = np.unique(values, return_inverse=True)
    table = np.array([of(int(value)) for value in distinct])
    found: Floats = table[index.reshape(values.shape)]
    return found
