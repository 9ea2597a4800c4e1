"""Sums over the ranks of a pipeline that give each strategy the same bits, whichever others are priced with it.

NumPy adds a column of a table in another order than an array of one row, and BLAS multiplies matrices in another order than
vectors. Answers to requests that came at the same time, and were priced together, would differ in their last digits.
"""

from __future__ import annotations

import numpy as np

from cost_models.shapes.layer_keys import Floats


def over_kinds(values: Floats) -> Floats:
    """Sum over the kinds of ranks, ``[n]``.

    Parameters
    ----------
    values : Floats, ``[kind, n]``
        Of every kind of rank.

    Returns
    -------
    Floats, ``[n]``
    """
    total: Floats = np.ascontiguousarray(values.T).sum(axis=1)
    return total


def weighted(weights: Floats, values: Floats) -> Floats:
    """``weights @ values``, ``[kind, n]``.

    Parameters
    ----------
    weights : Floats, ``[kind, kind]``
        What each kind of rank takes of every other.
    values : Floats, ``[kind, n]``
        Of every kind of rank.

    Returns
    -------
    Floats, ``[kind, n]``
    """
    total: Floats = np.matmul(weights, np.ascontiguousarray(values.T)[:, :, None])[:, :, 0].T
    return total
