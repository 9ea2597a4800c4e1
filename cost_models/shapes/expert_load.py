"""Measured routing: how unevenly copies of tokens fall on expert-parallel ranks and on bandwidth domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertCounts:
    """Token copies that each routed expert got, as a training log sums them: a row a MoE layer, or one for all of them.

    All rows have E entries and a positive sum. Experts lie in order, E / n of them on each of n ranks
    [megatron-0.12, moe_layer.py]; a domain of ranks that follow each other holds experts that do.
    """

    layers: tuple[tuple[float, ...], ...]

    @cached_property
    def _shares_before(self) -> Floats:
        """Share of a layer's copies that the experts before each one take. ``[layer, expert + 1]``"""
        counts = np.asarray(self.layers, dtype=np.float64)
        before = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
        shares: Floats = before / before[:, -1:]
        return shares

    def shares(self, num_parts: int) -> Floats:
        """Share of a layer's copies that each of ``num_parts`` equal runs of experts takes. ``[layer, part]``

        Parameters
        ----------
        num_parts : int
            Ranks, or domains of ranks, over which the experts lie evenly.

        Returns
        -------
        Floats, ``[layer, part]``
            Each row sums to 1.
        """
        num_experts = self._shares_before.shape[1] - 1
        return np.diff(self._shares_before[:, np.arange(num_parts + 1) * num_experts // num_parts], axis=1)

    def load_factor(self, num_parts: ArrayLike) -> Floats:
        """Copies of the fullest of ``num_parts`` parts over the mean, averaged over the layers, elementwise.

        Each layer waits for its own fullest part: the mean of the maxima, not the maximum of the means.

        Parameters
        ----------
        num_parts : array of int
            Ranks or domains.

        Returns
        -------
        Floats
            At least 1; 1 is balanced. What time is multiplied by.
        """
        return _looked_up(num_parts, lambda parts: float(np.mean(parts * self.shares(parts).max(axis=1))))

    def peak_load_factor(self, num_parts: ArrayLike) -> Floats:
        """The same in the layer where it is largest, which no rank's sum over layers exceeds. Elementwise.

        Parameters
        ----------
        num_parts : array of int
            Ranks or domains.

        Returns
        -------
        Floats
            At least ``load_factor``. What memory is multiplied by.
        """
        return _looked_up(num_parts, lambda parts: float(np.max(parts * self.shares(parts))))

    def tokens_of_fullest_domain(self, num_domains: ArrayLike, top_k: int) -> Floats:
        """N times the share of tokens with an expert in the fullest of N domains, averaged over the layers, elementwise.

        Counts say how often each expert was chosen, not which of them together. A domain that takes the share q of all
        copies is met as if q E of E equally likely experts were its own: uniform top-k without replacement for even
        counts, and k q copies in the mean for any.

        Parameters
        ----------
        num_domains : array of int
            Bandwidth domains over which the experts lie evenly.
        top_k : int
            Experts that a token chooses.

        Returns
        -------
        Floats
            Between 1 and ``num_domains``: domains that a token meets, as if all were as full as the fullest.

        Notes
        -----
        Exact for even counts. Choices that are as random as their counts allow met up to 5 % fewer on counts of three models
        [esft; olmoe]; choices that go together meet fewer still.
        """
        num_experts = self._shares_before.shape[1] - 1

        def fullest(domains: int) -> float:
            held = num_experts * self.shares(domains).max(axis=1)
            return domains * float(np.mean(1.0 - share_missed(num_experts, held, top_k)))

        return _looked_up(num_domains, fullest)

    def with_excess(self, factor: float) -> ExpertCounts:
        """Counts whose loads lie ``factor`` times as far above balance.

        Parameters
        ----------
        factor : float
            1 leaves the counts; 0 balances them.

        Returns
        -------
        ExpertCounts
            Rows keep their sums; a strong excess may leave negative counts of the emptiest experts.
        """
        counts = np.asarray(self.layers, dtype=np.float64)
        mean = counts.mean(axis=1, keepdims=True)
        return ExpertCounts(tuple(map(tuple, (mean + factor * (counts - mean)).tolist())))


def share_missed(candidates: float, held: Floats, top_k: int) -> Floats:
    """C(A - c, k) / C(A, k): probability that none of ``top_k`` out of ``candidates`` is among the ``held``.

    Parameters
    ----------
    candidates : float
        Equally likely experts, A.
    held : Floats
        How many of them, c, the part holds; fractions interpolate.
    top_k : int
        Experts that are drawn without replacement.

    Returns
    -------
    Floats
        Probability, 0 to 1.
    """
    share = np.ones_like(held)
    for i in range(top_k):
        share = share * np.maximum(candidates - held - i, 0.0) / max(candidates - i, 1.0)
    return share


def _looked_up(column: ArrayLike, of: Callable[[int], float]) -> Floats:
    # Strategies have a handful of degrees: count each once.
    """The value of a function at each entry of a column.

    Parameters
    ----------
    column : array of int
        A handful of distinct values.
    of : callable
        The function of one value.

    Returns
    -------
    Floats
        Shaped like ``column``.
    """
    values = np.asarray(column)
    distinct, index = np.unique(values, return_inverse=True)
    table = np.array([of(int(value)) for value in distinct])
    found: Floats = table[index.reshape(values.shape)]
    return found
