"""How many micro batches a pipeline rank keeps activations for at its peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def chunks_in_flight(rank: ArrayLike, chunk: int, pp: int, vpp: int, num_microbatches: ArrayLike) -> Floats:
    """Forwards of one chunk held on a rank when its first backward begins. Shapes broadcast.

    1F1B: min(m, p - i). Interleaved: the first w + 1 of the rank's forwards, w = 2 (p - 1 - i) + (v - 1) p, at most
    m v, which run through the chunks in groups of p micro batches, the last group of what is left
    [megatron-0.12, schedules.py]. Without a pipeline: 1.
    """
    i, m = np.asarray(rank, dtype=np.float64), np.asarray(num_microbatches, dtype=np.float64)
    if pp == 1:
        return np.ones(np.broadcast_shapes(i.shape, m.shape))
    if vpp == 1:
        return np.minimum(m, pp - i)
    held = np.minimum(m * vpp, 2.0 * (pp - 1 - i) + (vpp - 1) * pp + 1)
    whole, rest = np.divmod(held, pp * vpp)
    group = np.minimum(pp, m - whole * pp)
    held_of_chunk: Floats = whole * pp + np.clip(rest - chunk * group, 0, group)
    return held_of_chunk
