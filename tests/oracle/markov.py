"""A continuous-time Markov chain, solved by its balance equations: nothing that the product does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def stationary(rates: dict[tuple[str, str], float]) -> dict[str, float]:
    """Long-run probability of each state; ``rates`` are those of the transitions, per second."""
    states = sorted({state for pair in rates for state in pair})
    index = {state: row for row, state in enumerate(states)}
    generator: NDArray[np.float64] = np.zeros((len(states), len(states)))
    for (here, there), rate in rates.items():
        generator[index[here], index[there]] += rate
        generator[index[here], index[here]] -= rate
    equations = np.vstack([generator.T / np.abs(generator).max(), np.ones(len(states))])
    found, *_ = np.linalg.lstsq(equations, np.concatenate([np.zeros(len(states)), [1.0]]), rcond=None)
    return dict(zip(states, found.tolist(), strict=True))
