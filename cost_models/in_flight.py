"""How many micro batches a pipeline rank keeps activations for at its peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def chunks_in_flight(rank: ArrayLike, chunk: int, pp: int, vpp: int, num_microbatches: ArrayLike, turn: int = 0) -> Floats:
    """Forwards of one chunk held on a rank at its peak. Shapes broadcast.

    1F1B: min(m, p - i). Interleaved: the first w + 1 of the rank's forwards, w = 2 (p - 1 - i) + (v - 1) p, at most
    m v, which run through the chunks in groups of p micro batches, the last group of what is left
    [megatron-0.12, schedules.py]. Without a pipeline: 1.

    From then on a backward frees a chunk for every forward, last chunk first: the number held stays, its composition
    moves. ``turn`` 1 to ``num_turns(vpp) - 1`` gives the compositions at which it changes course.
    """
    i, m = np.asarray(rank, dtype=np.float64), np.asarray(num_microbatches, dtype=np.float64)
    if pp == 1:
        return np.ones(np.broadcast_shapes(i.shape, m.shape))
    if vpp == 1:
        return np.minimum(m, pp - i)
    held = np.minimum(m * vpp, 2.0 * (pp - 1 - i) + (vpp - 1) * pp + 1)
    later = held + pp * (turn // 2)
    forwards = np.minimum(later if turn % 2 == 0 else np.ceil(later / pp) * pp, m * vpp)
    forward, backward = _passed(forwards, chunk, pp, vpp, m), _passed(forwards - held, vpp - 1 - chunk, pp, vpp, m)
    return forward - backward


def num_turns(vpp: int) -> int:
    """Compositions that ``chunks_in_flight`` distinguishes."""
    return 2 * vpp + 2 if vpp > 1 else 1


def _passed(count: Floats, chunk: int, pp: int, vpp: int, num_microbatches: Floats) -> Floats:
    """Of the first ``count`` passes of a rank, those of one chunk."""
    whole, rest = np.divmod(count, pp * vpp)
    group = np.minimum(pp, num_microbatches - whole * pp)
    passed: Floats = whole * pp + np.clip(rest - chunk * group, 0, group)
    return passed
