"""Lengths of a step's answers: a distribution over prompts and samples, drawn reproducibly."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from documents.late_methods import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEFAULT_SIGMA = 0.7  # assumed, of ln(length): 0.6 to 0.8 for mathematics under a loose cap, 0.9 to 1.1 for agents
DEFAULT_GROUP_SHARE = 0.7  # assumed share of sigma^2 that the answers to one prompt have in common
MAX_SIGMA = 3.0
_FARTHEST = 5.5  # standard deviations; one answer in fifty million is beyond
_GRID = 4001  # number of quantiles for means of the truncated distribution


@dataclass(frozen=True)
class ResponseLengths:
    """ln L = mu + a + e, limited by ``cap``: the answers to one prompt share ``a``; each answer has its own ``e``.

    ``group_share`` is var(a) / sigma^2. An answer that would be longer stops at the cap and counts with that length.
    ``histogram``: (lengths, weights) instead of the formula; prompts are then drawn with the same ``group_share``.
    """

    mu: float
    sigma: float
    cap: int
    group_share: float = DEFAULT_GROUP_SHARE
    histogram: tuple[tuple[int, ...], tuple[float, ...]] | None = None

    def quantile(self, levels: Floats) -> Floats:
        """Length in tokens at each of ``levels`` in (0, 1), with the cap; elementwise."""
        if self.histogram is not None:
            lengths, weights = (np.array(part, dtype=np.float64) for part in self.histogram)
            order = np.argsort(lengths, kind="stable")
            reached = np.cumsum(weights[order]) / weights.sum()
            found = lengths[order][np.minimum(np.searchsorted(reached, levels), len(order) - 1)]
            return np.clip(found, 1.0, self.cap)
        return np.clip(np.exp(self.mu + self.sigma * _normal_quantiles(levels)), 1.0, self.cap)

    @property
    def mean(self) -> float:
        """Mean length. [tokens]"""
        return float(self.quantile(_grid()).mean())

    @property
    def truncated_fraction(self) -> float:
        """Fraction of the answers that reach the cap, which a user can compare with a log."""
        return float((self.quantile(_grid()) > self.cap - 0.5).mean())


def lengths_from_mean(
    mean: float, cap: int, sigma: float = DEFAULT_SIGMA, group_share: float = DEFAULT_GROUP_SHARE
) -> ResponseLengths:
    """The distribution whose mean, with the cap applied, is ``mean`` tokens, by bisection over ``mu``.

    At a mean equal to the cap, every answer is cut off. ``sigma`` is the standard deviation of ln(length); 0 gives all answers
    the mean length.
    """
    if sigma == 0.0 or mean >= cap:
        return ResponseLengths(math.log(max(min(mean, cap), 1.0)), 0.0, cap, group_share)
    spread = np.exp(sigma * _normal_quantiles(_grid()))
    low, high = math.log(mean) - sigma * 8.0 - 1.0, math.log(cap) + sigma * 8.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if float(np.clip(math.exp(middle) * spread, 1.0, cap).mean()) < mean:
            low = middle
        else:
            high = middle
    return ResponseLengths(0.5 * (low + high), sigma, cap, group_share)


def lengths_from_quantile(
    mean: float, cap: int, level: float, length: float, group_share: float = DEFAULT_GROUP_SHARE
) -> ResponseLengths:
    """The distribution with a given mean whose quantile at ``level`` is ``length`` tokens.

    ``level`` is in (0, 1): 0.5 for a median, 0.9 for the ninetieth percentile. ``length`` is below the cap. If no sigma up to 3
    matches, the nearest is used. Sigma is found by bisection, with mu inside.
    """
    levels = np.array([level])
    candidates = np.linspace(0.0, MAX_SIGMA, 121)
    found = [lengths_from_mean(mean, cap, float(sigma), group_share) for sigma in candidates]
    off = [abs(math.log(float(one.quantile(levels)[0]) / length)) for one in found]
    return found[int(np.argmin(off))]


def draw_lengths(lengths: ResponseLengths, prompts: int, samples: int, seed: int = 0) -> Ints:
    """Lengths of one step's answers in tokens, ``[prompts, samples]``; the same seed gives the same lengths.

    Both parts are stratified quantiles in an order that the seed decides. A step's mean therefore equals the distribution's, and
    two placements of one job are compared on the same answers.
    """
    generator = np.random.default_rng(seed)
    shared = _strata(prompts, generator) * math.sqrt(lengths.group_share)
    own = _strata(prompts * samples, generator).reshape(prompts, samples) * math.sqrt(1.0 - lengths.group_share)
    score = shared[:, None] + own
    ranks = np.empty(prompts * samples, dtype=np.float64)
    ranks[np.argsort(score, axis=None, kind="stable")] = (np.arange(prompts * samples) + 0.5) / (prompts * samples)
    drawn: Ints = np.rint(lengths.quantile(ranks)).astype(np.int64).reshape(prompts, samples)
    return np.maximum(drawn, 1)


def _strata(count: int, generator: np.random.Generator) -> Floats:
    return generator.permutation(_normal_quantiles((np.arange(count) + 0.5) / count))


@cache
def _table() -> tuple[Floats, Floats]:
    values = np.linspace(-_FARTHEST, _FARTHEST, 4001)
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in values]), values


def _normal_quantiles(levels: Floats) -> Floats:
    """Quantiles of the standard normal distribution, from a table."""
    known, values = _table()
    return np.interp(levels, known, values)


@cache
def _grid() -> Floats:
    return (np.arange(_GRID) + 0.5) / _GRID
