"""Folds of a split: the runs that a fit uses, and the runs that it is judged by."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from documents.late_methods import dataclass

Mask = NDArray[np.bool_]

FEWEST_TAUGHT = 9  # fewest earlier runs of a rolling origin


@dataclass(frozen=True)
class Fold:
    """Which observations a fit uses, and which it is judged by. ``[observation]``"""

    teaches: Mask
    judged: Mask


def grouped_folds(groups: Sequence[Hashable]) -> list[Fold]:
    """A fold for each group, judged by the fit to all others; runs of group ``None`` are in every fit and never judged."""
    folds = []
    for group in dict.fromkeys(g for g in groups if g is not None):
        out = np.array([g == group for g in groups])
        folds.append(Fold(~out, out))
    return folds


def rolling_folds(periods: Sequence[int | None]) -> list[Fold]:
    """The runs of each period, judged by the fit to all earlier periods, from ``FEWEST_TAUGHT`` runs on.

    A run without a period is in no fold.
    """
    known = np.array([np.nan if p is None else float(p) for p in periods])
    folds = [Fold(known < period, known == period) for period in np.unique(known[~np.isnan(known)])]
    return [fold for fold in folds if fold.teaches.sum() >= FEWEST_TAUGHT]
