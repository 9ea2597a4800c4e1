"""Assumed routing: how uneven experts are, by the method that balances the router, and the resulting load of ranks and domains.

The weight of an expert in a layer is lognormal on two levels. ``base_sd`` belongs to the expert itself, ``domain_sd`` to the
expert in one domain of the data. A micro batch averages ``NUM_DOMAINS`` domains. The mean and the quantiles of the fullest of
any number of ranks follow in closed form, without random draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.shapes.expert_load import share_missed
from cost_models.shapes.router_balance import RouterBalance
from documents.late_methods import dataclass
from documents.sentences import Sentence

Floats = NDArray[np.float64]

# Domains of the data in a micro batch: mixtures of tasks and web text both have the loads that four domains give [esft; olmoe].
NUM_DOMAINS = 4
# Quantile of the fullest rank over steps and stages that memory must hold. No rank is the fullest in all that it holds at once:
# at least two layers of two micro batches if experts' activations are kept. More would be more even.
PEAK_QUANTILE = 0.9
HELD_LAYERS = 2
HELD_MICRO_BATCHES = 2


_TRAINED = Sentence("spread of the inference of trained models over domains of data")
_ASSUMED = Sentence("spread assumed, within the balance that such routers reach over a whole validation set")
# By number of routed experts in the measured model: standard deviations of ln(weight), base and domain, and their source. They
# reproduce the variance of shares in a domain and the covariance between domains [esft; olmoe; loss-free-balancing, table 2].
_SPREADS: dict[RouterBalance, dict[int, tuple[float, float, str]]] = {
    RouterBalance.AUXILIARY_LOSS: {
        8: (0.10, 0.10, Sentence("{}: Mixtral 8x7B", _TRAINED)),
        64: (0.30, 0.70, Sentence("{}: DeepSeek-V2-Lite, OLMoE", _TRAINED)),
    },
    RouterBalance.LOSS_FREE: {8: (0.05, 0.10, _ASSUMED), 64: (0.05, 0.30, _ASSUMED)},
}
_SPREADS[RouterBalance.GROUP] = _SPREADS[RouterBalance.AUXILIARY_LOSS]  # inside a group
# The strength of a loss matters more than its extent. DeepSeek-V2-Lite was trained with a weak loss over sequences and OLMoE with
# a loss over micro batches; neither is even in one domain. No loads are published for a loss over an expert-parallel group.
_MIXTRAL = _SPREADS[RouterBalance.AUXILIARY_LOSS][8]
_SPREADS |= {
    RouterBalance.SEQUENCE: {8: _MIXTRAL, 64: (0.30, 0.70, f"{_TRAINED}: DeepSeek-V2-Lite")},
    RouterBalance.MICRO_BATCH: {8: _MIXTRAL, 64: (0.32, 0.71, f"{_TRAINED}: OLMoE")},
    RouterBalance.EP_GROUP: _SPREADS[RouterBalance.LOSS_FREE],
}


@dataclass(frozen=True)
class ExpertSpread:
    """Spread of the weights of ``num_experts`` experts. Each of ``num_groups`` groups gets the same copies.

    ``excess`` scales the deviation from balance; 0 is even. ``source`` is the source of the standard deviations. ``assumed`` says
    that nobody stated the routing: measured runs do not tell its cost, so times are those of even experts, and what these loads
    would add is doubt. Memory has room for them.
    """

    balance: RouterBalance
    num_experts: int
    base_sd: float
    domain_sd: float
    source: str = ""
    num_groups: int = 1
    excess: float = 1.0
    assumed: bool = False

    @property
    def stated(self) -> ExpertSpread:
        """The same spread with its loads in the times."""
        return replace(self, assumed=False)

    @property
    def expert_variance(self) -> float:
        """Relative variance of an expert's copies in a micro batch: exp(b^2) (1 + (exp(d^2) - 1) / D) - 1."""
        return self._variance(NUM_DOMAINS)

    def _variance(self, num_domains: int) -> float:
        """Relative variance of an expert's copies in a layer, averaged over domains of the data with separate weights."""
        return math.exp(self.base_sd**2) * (1.0 + math.expm1(self.domain_sd**2) / num_domains) - 1.0

    def load_factor(self, num_parts: ArrayLike, copies: ArrayLike = np.inf) -> Floats:
        """Factor on time: mean copies of the fullest of ``num_parts`` parts over the mean of all parts; elementwise.

        The mean is over layers and steps. The factor is between 1 and ``num_parts``, and 1 if the spread is assumed.

        Parameters
        ----------
        copies
            Mean copies of a part. A finite number adds random scatter.
        """
        if self.assumed:
            return np.ones(np.broadcast_shapes(np.shape(num_parts), np.shape(copies)))
        return self._scaled(num_parts, copies, self._mean)

    def peak_load_factor(self, num_parts: ArrayLike, copies: ArrayLike = np.inf) -> Floats:
        """Factor on memory: ``PEAK_QUANTILE`` over steps and stages of the load that a stage holds at once; elementwise.

        It is between 1 and ``num_parts``.

        Parameters
        ----------
        copies
            Mean copies of a part in one layer and micro batch.
        """
        return self._scaled(num_parts, copies, self._held_peak)

    def tokens_of_fullest_domain(self, num_domains: ArrayLike, top_k: int) -> Floats:
        """N times the share of tokens with an expert in the fullest of N domains, as in ``ExpertCounts``; elementwise."""
        domains = np.asarray(num_domains, dtype=np.float64)
        held = self.num_experts / domains * self.load_factor(domains)
        met: Floats = domains * (1.0 - share_missed(self.num_experts, held, top_k))
        return met

    def with_excess(self, factor: float) -> ExpertSpread:
        """A spread with ``factor`` times the deviation from balance: 1 changes nothing, 0 balances."""
        return replace(self, excess=self.excess * factor)

    def _scaled(self, num_parts: ArrayLike, copies: ArrayLike, of: Callable[[int, float], float]) -> Floats:
        """1 + excess x (``of``(parts, copies) - 1); elementwise."""
        # Strategies have a handful of degrees and micro batches, so each pair is computed once.
        parts, each = np.broadcast_arrays(np.asarray(num_parts, dtype=np.float64), np.asarray(copies, dtype=np.float64))
        numbers, row = np.unique(parts, return_inverse=True)
        sizes, column = np.unique(each, return_inverse=True)
        table = np.array([[of(max(int(number), 1), float(size)) for size in sizes] for number in numbers])
        found: Floats = 1.0 + self.excess * (table[row, column].reshape(parts.shape) - 1.0)
        return found

    def _mean(self, num_parts: int, copies: float) -> float:
        """Mean load of the fullest part. A part is E / n experts, of one group or of all."""
        num_blocks = math.gcd(num_parts, self.num_groups)
        variance = self.expert_variance * num_parts / self.num_experts + 1.0 / copies
        return _fullest_of(num_blocks, num_parts // num_blocks, variance)[0]

    def _held_peak(self, num_parts: int, copies: float) -> float:
        """``PEAK_QUANTILE`` of the fullest part's sum over layers, and over micro batches of other domains."""
        num_blocks = math.gcd(num_parts, self.num_groups)
        variance = self._variance(NUM_DOMAINS * HELD_MICRO_BATCHES) * num_parts / self.num_experts
        variance += 1.0 / (copies * HELD_MICRO_BATCHES)
        return _fullest_of(num_blocks, num_parts // num_blocks, variance / HELD_LAYERS)[1]


def usual_balance(top_k: int, num_groups: int, group_topk: int, *, expert_bias: bool | None) -> RouterBalance:
    """The method that most likely balances a router, from what its model states.

    Parameters
    ----------
    expert_bias
        Whether a bias on the scores balances the experts; ``None``: not stated.
    """
    if chooses_one_of_every_group(top_k, num_groups, group_topk):
        return RouterBalance.GROUP
    return RouterBalance.LOSS_FREE if expert_bias else RouterBalance.AUXILIARY_LOSS


def chooses_one_of_every_group(top_k: int, num_groups: int, group_topk: int) -> bool:
    """Whether a token chooses as many experts as there are groups, from all groups [pangu-pro-moe]."""
    return num_groups > 1 and top_k == num_groups == group_topk


def expert_spread(balance: RouterBalance, num_experts: int, num_groups: int = 1) -> ExpertSpread:
    """Spread of experts under a balancing method, from the measured model with the nearest number of experts (by ratio).

    Parameters
    ----------
    num_groups
        Groups that get the same copies; used under ``GROUP`` only.
    """
    if balance is RouterBalance.FORCED:
        return ExpertSpread(balance, num_experts, 0.0, 0.0, Sentence("every rank gets the mean"), excess=0.0)
    by_experts = _SPREADS[balance]
    measured = min(by_experts, key=lambda number: abs(math.log(number / num_experts)))
    return ExpertSpread(balance, num_experts, *by_experts[measured], num_groups if balance is RouterBalance.GROUP else 1)


# The fullest part is within these standard deviations, to one in 10^14. Three points represent a normal variable.
_DEVIATIONS = np.linspace(-7.8, 7.8, 391)
_NORMAL = np.array([0.5 * math.erfc(-deviation / math.sqrt(2.0)) for deviation in _DEVIATIONS])
_POINTS, _WEIGHTS = math.sqrt(3.0) * np.array([-1.0, 0.0, 1.0]), np.array([1.0, 4.0, 1.0]) / 6.0


@lru_cache(maxsize=2**14)
def _fullest_of(num_blocks: int, parts: int, variance: float) -> tuple[float, float]:
    """Mean and ``PEAK_QUANTILE`` of the fullest part over the mean part, from 1 to ``parts``.

    There are ``num_blocks`` blocks of r ``parts`` with a fixed sum in each block. ``variance`` is a part's relative variance
    without that constraint. A part is lognormal, s^2 = ln(1 + variance) [fenton1960]. The largest of a block's r parts is below z
    standard deviations with probability Phi(z)^r. The other parts of its sum are lognormals truncated at it: their mean over it
    is exp(s^2 / 2 - s z) Phi(z - s) / Phi(z), plus or minus the scatter of a mean of r - 1.
    """
    if parts == 1:
        return 1.0, 1.0
    s = math.sqrt(math.log1p(variance))
    moments = [
        np.exp(n * (n * s * s / 2.0 - s * _DEVIATIONS)) * np.interp(_DEVIATIONS - n * s, _DEVIATIONS, _NORMAL) / _NORMAL
        for n in (1, 2)
    ]
    scatter = np.sqrt(np.maximum(moments[1] - moments[0] ** 2, 0.0) / (parts - 1))
    others = np.clip(moments[0][:, None] + scatter[:, None] * _POINTS, 0.0, 1.0)
    loads = parts / (1.0 + (parts - 1.0) * others)
    loads = (loads[1:] + loads[:-1]) / 2.0
    order = np.argsort(loads, axis=None)
    loads, weights = loads.ravel()[order], (np.diff(_NORMAL**parts)[:, None] * _WEIGHTS).ravel()[order]
    below = np.cumsum(weights / weights.sum()) ** num_blocks
    mean = float(np.sum(np.diff(below, prepend=0.0) * loads))
    return max(mean, 1.0), max(float(np.interp(PEAK_QUANTILE, below, loads)), 1.0)
