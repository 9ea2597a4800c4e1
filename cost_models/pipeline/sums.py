"""Sums over pipeline ranks that give each strategy the same bits with any other strategies in its batch.

NumPy adds a column of a table in another order than an array of one row, and BLAS multiplies matrices in another order than
vectors. Requests that arrive together are priced together, and their last digits would otherwise differ.
"""

from __future__ import annotations

import numpy as np

from cost_models.shapes.layer_keys import Floats


def over_kinds(values: Floats) -> Floats:
    """Sum of ``[kind, n]`` over the kinds of ranks, ``[n]``, in any unit."""
    total: Floats = np.ascontiguousarray(values.T).sum(axis=1)
    return total


def weighted(weights: Floats, values: Floats) -> Floats:
    """``weights @ values``, ``[kind, n]``, in any unit.

    Parameters
    ----------
    weights : ``[kind, kind]``
        Weight of every other kind for each kind of rank.
    values : ``[kind, n]``
    """
    total: Floats = np.matmul(weights, np.ascontiguousarray(values.T)[:, :, None])[:, :, 0].T
    return total
