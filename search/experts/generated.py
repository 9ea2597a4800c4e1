"""A generated trace: expert loads of a two-level spread that drift from step to step."""

from __future__ import annotations

import math

import numpy as np

from cost_models.shapes.expert_spread import NUM_DOMAINS, ExpertSpread
from search.experts.packing import Floats

# Of what is a domain's own, how much stays from one step to the next: from an error of 1.3 % over 1,000 steps of a stable
# training [expert-load-prediction]; assumed for its first 5,000 steps.
STABLE_KEPT, EARLY_KEPT = 1.0 - 5e-7, 1.0 - 1e-3


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
    """Token copies by step, layer and expert, ``[step, layer, expert]``, ``copies`` in each layer of each step.

    The weight of an expert in a domain is exp(base + domain), both normal with the sd of ``spread``; the second drifts. A step
    averages the shares of its domains and draws from them.
    """
    random = np.random.default_rng(seed)
    kept = EARLY_KEPT if early else STABLE_KEPT
    shape = (num_domains, num_layers, spread.num_experts)
    base = random.normal(0.0, spread.base_sd, shape[1:])
    own = random.normal(0.0, spread.domain_sd, shape)
    counts = np.empty((num_steps, *shape[1:]))
    for step in range(num_steps):
        weights = np.exp(base + own)
        shares = (weights / weights.sum(axis=-1, keepdims=True)).mean(axis=0)
        counts[step] = random.multinomial(copies, shares / shares.sum(axis=-1, keepdims=True))
        own = kept * own + math.sqrt(1.0 - kept**2) * random.normal(0.0, spread.domain_sd, shape)
    return counts
