"""The leaderboard: the best plans of a stream of estimates, in bounded memory and a stable order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.layer_keys import distinct_rows
from cost_models.shapes.strategy import COLUMNS, IntColumn, ParallelStrategy, StrategyBatch, concatenate
from search.objectives.objective import Criterion
from search.ranking.structures import STRUCTURE, structure_index

Floats = NDArray[np.float64]

_BATCH_COLUMNS = (*COLUMNS, "layout_index", "recompute_plan_index")  # rows of a lattice have no tensor plan
_NUMBERS = {"step_time_s": np.float64, "peak_memory_bytes": np.float64, "ordinal": np.int64}  # columns in addition to the batch
_UNPLACED = tuple(name for name in _BATCH_COLUMNS if name not in ("layout_index", "mtp_before_head"))


@dataclass(frozen=True)
class Scored:
    """Strategies ``[n]`` with the numbers that rank them; ``ordinal`` is their place in the enumeration."""

    batch: StrategyBatch
    step_time_s: Floats
    peak_memory_bytes: Floats
    ordinal: IntColumn

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Scored:
        """The chosen rows, in that order."""
        return Scored(self.batch.take(rows), self.step_time_s[rows], self.peak_memory_bytes[rows], self.ordinal[rows])

    def by(self, criterion: Criterion) -> Floats:
        """The numbers of a criterion."""
        return self.peak_memory_bytes if criterion is Criterion.PEAK_MEMORY else self.step_time_s

    def ranked(self, criterion: Criterion) -> NDArray[np.int64]:
        """Rows from best to worst: by the criterion, the other one, then place in the enumeration."""
        (other,) = (each for each in Criterion if each is not criterion)
        return np.lexsort((self.ordinal, self.by(other), self.by(criterion)))


@dataclass(frozen=True)
class RankedStrategy:
    """A row of the leaderboard, with the next best strategies of the same structure."""

    strategy: ParallelStrategy
    step_time_s: float
    peak_memory_bytes: float
    variants: tuple[RankedStrategy, ...] = ()

    def by(self, criterion: Criterion) -> float:
        """The number of a criterion."""
        return self.peak_memory_bytes if criterion is Criterion.PEAK_MEMORY else self.step_time_s


class Leaderboard:
    """The best strategy of each structure and its variants, for the ``top`` best structures.

    Exact only for rows in the order of the enumeration, in which rows of a structure are neighbours. A structure that is dropped
    between two additions can then never come back.
    """

    def __init__(self, criterion: Criterion, top: int, num_variants: int = 3, kept: Scored | None = None) -> None:
        self.criterion = criterion
        self.top = top
        self.num_variants = num_variants
        self._kept = kept

    @property
    def kept(self) -> Scored | None:
        """The rows that may still be listed, best first. A leaderboard made of them continues this one."""
        return self._kept

    @property
    def best_step_time_s(self) -> float | None:
        """Step time of the best strategy so far."""
        return float(self._kept.step_time_s[0]) if self._kept is not None else None

    @property
    def worst_that_counts(self) -> float:
        """The number of the last listed plan by the criterion; infinite while there is room for another."""
        if self._kept is None:
            return float("inf")
        place, structure_rank = _places(structure_index(self._kept.batch))
        values = self._kept.by(self.criterion)
        last = values[(place == 0) & (structure_rank == self.top - 1)]
        return float(last[0]) if len(last) else float("inf")

    def add(self, scored: Scored) -> None:
        """Consider more rows."""
        if not len(scored):
            return
        last = scored.take(np.array([int(np.argmax(scored.ordinal))]))
        pool = scored if self._kept is None else joined(self._kept, scored)
        pool = pool.take(pool.ranked(self.criterion))
        place, structure_rank = _places(structure_index(pool.batch))
        open_structure = np.all([getattr(pool.batch, name) == getattr(last.batch, name)[0] for name in STRUCTURE], axis=0)
        keep = (place <= self.num_variants) & ((structure_rank < self.top) | open_structure)
        self._kept = pool.take(keep)

    def plans(self) -> tuple[RankedStrategy, ...]:
        """The best structures, best first."""
        if self._kept is None:
            return ()
        kept = self._kept
        _, structure_rank = _places(structure_index(kept.batch))
        plans = []
        for rank in range(min(self.top, int(structure_rank.max()) + 1)):
            best, *others = (
                RankedStrategy(kept.batch.row(row), float(kept.step_time_s[row]), float(kept.peak_memory_bytes[row]))
                for row in np.flatnonzero(structure_rank == rank).tolist()
            )
            plans.append(RankedStrategy(best.strategy, best.step_time_s, best.peak_memory_bytes, tuple(others)))
        return tuple(plans)


def fastest_placed(scored: Scored, criterion: Criterion) -> NDArray[np.int64]:
    """Best of the rows that differ only in their placements: variants of a plan are other strategies."""
    ranked = scored.ranked(criterion)
    first, _ = distinct_rows([getattr(scored.batch, name)[ranked] for name in _UNPLACED])
    return np.sort(ranked[first])


def joined(first: Scored, second: Scored) -> Scored:
    """The rows of both."""
    return Scored(
        concatenate([first.batch, second.batch]),
        np.concatenate([first.step_time_s, second.step_time_s]),
        np.concatenate([first.peak_memory_bytes, second.peak_memory_bytes]),
        np.concatenate([first.ordinal, second.ordinal]),
    )


def batch_to_mapping(batch: StrategyBatch) -> dict[str, Any]:
    """Rows of a lattice as JSON columns."""
    batch = concatenate([batch])  # layouts of other rows are not saved
    return {
        "batch": {name: getattr(batch, name).tolist() for name in _BATCH_COLUMNS},
        "layouts": [[list(row) for row in layout] for layout in batch.layouts],
    }


def batch_from_mapping(mapping: Mapping[str, Any]) -> StrategyBatch:
    """The rows that ``batch_to_mapping`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
    columns: dict[str, Any] = {name: np.array(mapping["batch"][name], dtype=np.int64) for name in _BATCH_COLUMNS}
    columns["tensor_plan_index"] = np.full_like(columns["layout_index"], -1)
    layouts = tuple(tuple(tuple(map(int, row)) for row in layout) for layout in mapping["layouts"])
    return StrategyBatch(**columns, layouts=layouts)


def scored_to_mapping(scored: Scored) -> dict[str, Any]:
    """The rows as JSON columns."""
    return {**batch_to_mapping(scored.batch), **{name: getattr(scored, name).tolist() for name in _NUMBERS}}


def scored_from_mapping(mapping: Mapping[str, Any]) -> Scored:
    """The rows that ``scored_to_mapping`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
    numbers: dict[str, Any] = {name: np.array(mapping[name], dtype=kind) for name, kind in _NUMBERS.items()}
    return Scored(batch_from_mapping(mapping), **numbers)


def _places(structure: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Place in the structure and rank of the structure, both from 0, for rows in ranked order."""
    by_structure = np.argsort(structure, kind="stable")
    sizes = np.bincount(structure)
    starts = np.cumsum(sizes) - sizes
    place = np.empty_like(structure)
    place[by_structure] = np.arange(len(structure)) - np.repeat(starts, sizes)
    best_row = by_structure[starts]
    rank = np.empty_like(best_row)
    rank[np.argsort(best_row)] = np.arange(len(best_row))
    return place, rank[structure]
