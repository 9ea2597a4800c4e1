"""Which runs teach and which are judged, split by split."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

FEWEST_TAUGHT = 9  # runs that an origin must have behind it: fewer are no family's history


@dataclass(frozen=True)
class Fold:
    """Which observations teach, and which are judged by what these taught. ``[observation]``"""

    teaches: Mask
    judged: Mask


def grouped_folds(groups: Sequence[Hashable]) -> list[Fold]:
    """Each group judged by what all others teach; a group of ``None`` always teaches and is never judged."""
    folds = []
    for group in dict.fromkeys(g for g in groups if g is not None):
        out = np.array([g == group for g in groups])
        folds.append(Fold(~out, out))
    return folds


def rolling_folds(periods: Sequence[int | None]) -> list[Fold]:
    """The runs of each period judged by what those of all earlier periods teach, from ``FEWEST_TAUGHT`` runs on.

    A run without a period neither teaches nor is judged.
    """
    known = np.array([np.nan if p is None else float(p) for p in periods])
    folds = [Fold(known < period, known == period) for period in np.unique(known[~np.isnan(known)])]
    return [fold for fold in folds if fold.teaches.sum() >= FEWEST_TAUGHT]
