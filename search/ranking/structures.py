"""Structures: plans that share these columns are variants of one another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.strategy import StrategyBatch

STRUCTURE = ("tp", "pp", "cp", "ep", "vpp", "schedule")

Structure = bytes


def structures(batch: StrategyBatch) -> list[Structure]:
    """A key for each row; equal keys mean equal structures, also across batches."""
    return _keys(_table(batch)).tolist() if len(batch) else []


def structure_index(batch: StrategyBatch) -> NDArray[np.int64]:
    """A number from 0 for each row ``[n]``; equal numbers mean equal structures. Rows of one structure are often neighbours."""
    if not len(batch):
        return np.empty(0, dtype=np.int64)
    table = _table(batch)
    begins = np.concatenate([[True], (table[1:] != table[:-1]).any(axis=1)])
    _, index = np.unique(_keys(table[begins]), return_inverse=True)
    found: NDArray[np.int64] = index[np.cumsum(begins) - 1]
    return found


def structure_of(strategy: object) -> tuple[Any, ...]:
    """The structure of a record that has these columns as attributes."""
    return tuple(getattr(strategy, name) for name in STRUCTURE)


def _table(batch: StrategyBatch) -> NDArray[np.int64]:
    return np.stack([getattr(batch, name) for name in STRUCTURE], axis=1)


def _keys(table: NDArray[np.int64]) -> NDArray[np.void]:
    keys: NDArray[np.void] = table.view(f"V{table.shape[1] * table.itemsize}").ravel()
    return keys
