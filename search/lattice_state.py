"""What an exhaustive search has found so far: everything it needs to continue elsewhere, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cost_models.strategy import COLUMNS, ParallelStrategy, StrategyBatch
from search.enumeration import Rejections
from search.errors import SearchError
from search.legality import RULES
from search.ranking import Leaderboard, Scored

FORMAT = 1
_BATCH_COLUMNS = (*COLUMNS, "layout_index", "recompute_plan_index")
_RULES = {rule.name: rule for rule in RULES}


@dataclass
class LatticeState:
    """Counts, incumbents and reasons after ``num_chunks`` chunks; times in seconds of the caller's clock."""

    leaderboard: Leaderboard
    rejections: Rejections = field(default_factory=Rejections)
    num_chunks: int = 0
    done_fraction: float = 0.0
    enumerated: int = 0
    legal: int = 0
    fits_memory: int = 0
    leanest: tuple[float, ParallelStrategy] | None = None  # least peak memory of all legal strategies
    enumerate_s: float = 0.0
    legality_s: float = 0.0
    price_s: float = 0.0
    rank_s: float = 0.0
    elapsed_s: float = 0.0

    def to_mapping(self) -> dict[str, Any]:
        """The state as JSON; ``from_mapping`` reads it back to an equal one."""
        kept = self.leaderboard.kept
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "leanest": None if self.leanest is None else [self.leanest[0], strategy_values(self.leanest[1])],
            "rejections": [
                [name, count, strategy_values(self.rejections.examples[name][1])]
                for name, count in self.rejections.counts.items()
            ],
            "leaderboard": None if kept is None else _scored_to_mapping(kept),
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], objective: str, top: int) -> LatticeState:
        """The state that ``to_mapping`` wrote for the same search. Raises ``SearchError`` for anything else."""
        try:
            if mapping["format"] != FORMAT:
                raise SearchError(f"checkpoint: format {mapping['format']!r} is not {FORMAT}, the one this version reads")
            rejections = Rejections()
            for name, count, values in mapping["rejections"]:
                rejections.charge(_RULES[name], int(count), strategy_from_values(values))
            leanest, kept = mapping["leanest"], mapping["leaderboard"]
            plain: dict[str, Any] = {name: kind(mapping[name]) for name, kind in _PLAIN.items()}
            return cls(
                leaderboard=Leaderboard(objective, top, kept=None if kept is None else _scored_from_mapping(kept)),
                rejections=rejections,
                leanest=None if leanest is None else (float(leanest[0]), strategy_from_values(leanest[1])),
                **plain,
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SearchError):
                raise
            raise SearchError(f"checkpoint: not one that a search of this version wrote ({error})") from None


_PLAIN: dict[str, type[int] | type[float]] = {
    f.name: float if f.name.endswith(("_s", "_fraction")) else int
    for f in fields(LatticeState)
    if f.name not in ("leaderboard", "rejections", "leanest")
}


def strategy_values(strategy: ParallelStrategy) -> list[int]:
    """A strategy of the lattice, which has no layout of its own, as its column values in the order of ``COLUMNS``."""
    return [int(getattr(strategy, name)) for name in COLUMNS]


def strategy_from_values(values: list[int]) -> ParallelStrategy:
    """The strategy with those column values. Raises ``ValueError`` unless there is one value a column."""
    columns: dict[str, Any] = {name: np.array([value], dtype=np.int64) for name, value in zip(COLUMNS, values, strict=True)}
    none = np.array([-1], dtype=np.int64)
    return StrategyBatch(**columns, layout_index=none, recompute_plan_index=none).row(0)


def _scored_to_mapping(scored: Scored) -> dict[str, Any]:
    return {
        "batch": {name: getattr(scored.batch, name).tolist() for name in _BATCH_COLUMNS},
        "step_time_s": scored.step_time_s.tolist(),
        "peak_memory_bytes": scored.peak_memory_bytes.tolist(),
        "ordinal": scored.ordinal.tolist(),
    }


def _scored_from_mapping(mapping: Mapping[str, Any]) -> Scored:
    columns: dict[str, Any] = {name: np.array(mapping["batch"][name], dtype=np.int64) for name in _BATCH_COLUMNS}
    return Scored(
        StrategyBatch(**columns),
        np.array(mapping["step_time_s"], dtype=np.float64),
        np.array(mapping["peak_memory_bytes"], dtype=np.float64),
        np.array(mapping["ordinal"], dtype=np.int64),
    )
