"""A generated trace: expert loads of a two-level spread that drift from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cost_models.shapes.expert_spread import NUM_DOMAINS, ExpertSpread
from search.experts.packing import Floats

EARLY_STEPS = 5000  # after which loads are stable [expert-load-prediction]
# Of what is a domain's own, how much stays from one step to the next: from an error of 1.3 % over 1,000 steps of a stable
# training [expert-load-prediction]; assumed for its first 5,000 steps.
STABLE_KEPT, EARLY_KEPT = 1.0 - 5e-7, 1.0 - 1e-3


@dataclass
class Router:
    """A router whose loads drift. The weight of an expert in a domain is exp(base + domain); the second drifts.

    Both are normal with the sd of ``spread``. ``base`` is ``[layer, expert]`` and ``own`` ``[domain, layer, expert]``.
    """

    spread: ExpertSpread
    base: Floats
    own: Floats
    random: np.random.Generator

    @classmethod
    def drawn(cls, spread: ExpertSpread, num_layers: int, num_domains: int, seed: int) -> Router:
        """A router at the first step of a trace."""
        random = np.random.default_rng(seed)
        shape = (num_domains, num_layers, spread.num_experts)
        base = random.normal(0.0, spread.base_sd, shape[1:])
        return cls(spread, base, random.normal(0.0, spread.domain_sd, shape), random)

    def counts(self, copies: int) -> Floats:
        """Token copies of a step, ``[layer, expert]``, ``copies`` in each layer: drawn from the mean of its domains' shares."""
        weights = np.exp(self.base + self.own)
        shares = (weights / weights.sum(axis=-1, keepdims=True)).mean(axis=0)
        found: Floats = self.random.multinomial(copies, shares / shares.sum(axis=-1, keepdims=True)).astype(np.float64)
        return found

    def drift(self, kept: float) -> None:
        """Go on to a step at which ``kept`` of what is a domain's own remains."""
        self.own = kept * self.own + math.sqrt(1.0 - kept**2) * self.random.normal(0.0, self.spread.domain_sd, self.own.shape)


def generated_counts(
    spread: ExpertSpread,
    num_layers: int,
    num_steps: int,
    copies: int,
    *,
    num_domains: int = NUM_DOMAINS,
    early: bool = False,
    seed: int = 0,
) -> Floats:
    """Token copies by step, layer and expert, ``[step, layer, expert]``, ``copies`` in each layer of each step."""
    router = Router.drawn(spread, num_layers, num_domains, seed)
    counts = np.empty((num_steps, num_layers, spread.num_experts))
    for step in range(num_steps):
        counts[step] = router.counts(copies)
        router.drift(EARLY_KEPT if early else STABLE_KEPT)
    return counts
