"""The state of an exhaustive search as plain JSON: everything that another process needs to continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from cost_models.shapes.strategy import COLUMNS, INDICES, LayerLayout, ParallelStrategy, StrategyBatch
from documents.sentences import Sentence
from frameworks.legality import RULES
from search.errors import SearchError
from search.exhaustive.open_candidates import OpenCandidates
from search.objectives.objective import Criterion
from search.ranking.leaderboard import Leaderboard, Scored, scored_from_mapping, scored_to_mapping
from search.space.enumeration import Rejections

FORMAT = 8
TIE = 1e-9  # relative difference of times that are equal
_RULES = {rule.name: rule for rule in RULES}


class Incumbents(NamedTuple):
    """Value that rows must beat to be listed, in seconds or bytes, and least peak memory so far."""

    to_beat: float = float("inf")
    least_bytes: float = float("inf")


@dataclass
class LatticeState:
    """Counts, incumbents and rejections after ``num_chunks`` chunks; times in seconds of the caller's clock."""

    leaderboard: Leaderboard
    rejections: Rejections = field(default_factory=Rejections)
    candidates: OpenCandidates = field(default_factory=OpenCandidates)
    num_chunks: int = 0
    done_fraction: float = 0.0
    is_enumerated: int = 0  # 1 once no chunk is left
    enumerated: int = 0
    lattice_refused: int = 0  # strategies of the lattice that break a rule, without memory-saving forms
    forms: int = 0  # memory-saving forms that were tried
    legal: int = 0
    ruled_out: int = 0  # legal rows that a bound on their time rules out
    fits_memory: int = 0
    placed: int = 0  # rows that fit, each under every candidate placement
    num_priced: int = 0  # chunks with legal rows
    history: list[Incumbents] = field(default_factory=lambda: [Incumbents()])  # incumbents after each of the last chunks
    first: Scored | None = None  # plans that were found before the enumeration, as many as are listed
    leanest: tuple[float, ParallelStrategy] | None = None  # least peak memory of all legal strategies
    enumerate_s: float = 0.0
    legality_s: float = 0.0
    price_s: float = 0.0
    rank_s: float = 0.0
    simulate_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def bar_s(self) -> float:
        """The step time that a row must be below to be listed. Times equal to that of the last plan so far are."""
        first_s = float("inf") if self.first is None else float(self.first.step_time_s.max()) * (1.0 + TIE)
        return min(self.candidates.bar_s, first_s)

    def to_mapping(self) -> dict[str, Any]:
        """The state as JSON; ``from_mapping`` reads it back to an equal one."""
        kept = self.leaderboard.kept
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "leanest": None if self.leanest is None else [self.leanest[0], *placed_values(self.leanest[1])],
            "history": [[value if np.isfinite(value) else None for value in incumbents] for incumbents in self.history],
            "rejections": [
                [name, count, strategy_values(self.rejections.examples[name][1])]
                for name, count in self.rejections.counts.items()
            ],
            "first": None if self.first is None else scored_to_mapping(self.first),
            "leaderboard": None if kept is None else scored_to_mapping(kept),
            "finalists": self.candidates.to_mapping(),
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], criterion: Criterion, top: int) -> LatticeState:
        """The state that ``to_mapping`` wrote for the same search. Raises ``SearchError`` for anything else."""
        try:
            if mapping["format"] != FORMAT:
                raise SearchError(
                    Sentence("checkpoint: format {!r} is not {}, the one this version reads.", mapping["format"], FORMAT)
                )
            rejections = Rejections()
            for name, count, values in mapping["rejections"]:
                rejections.charge(_RULES[name], int(count), strategy_from_values(values))
            leanest, kept, first = (mapping[name] for name in ("leanest", "leaderboard", "first"))
            plain: dict[str, Any] = {name: kind(mapping[name]) for name, kind in _PLAIN.items()}
            return cls(
                leaderboard=Leaderboard(criterion, top, kept=None if kept is None else scored_from_mapping(kept)),
                rejections=rejections,
                history=[
                    Incumbents(*(float("inf") if value is None else float(value) for value in incumbents))
                    for incumbents in mapping["history"]
                ],
                candidates=OpenCandidates.from_mapping(mapping["finalists"], top),
                first=None if first is None else scored_from_mapping(first),
                leanest=None if leanest is None else (float(leanest[0]), strategy_from_values(*leanest[1:])),
                **plain,
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SearchError):
                raise
            raise SearchError(Sentence("checkpoint: not one that a search of this version wrote ({}).", error)) from None


_PLAIN: dict[str, type[int] | type[float]] = {
    f.name: float if f.name.endswith(("_s", "_fraction")) else int
    for f in fields(LatticeState)
    if f.name not in ("leaderboard", "rejections", "candidates", "history", "first", "leanest")
}


def strategy_values(strategy: ParallelStrategy) -> list[int]:
    """A strategy of the lattice without its placement, as column values in the order of ``COLUMNS``."""
    return [int(getattr(strategy, name)) for name in COLUMNS]


def placed_values(strategy: ParallelStrategy) -> tuple[list[int], LayerLayout | None]:
    """A strategy of the lattice with its placement, as ``strategy_from_values`` takes it."""
    return strategy_values(strategy), strategy.layer_layout


def strategy_from_values(values: list[int], layout: Sequence[Sequence[int]] | None = None) -> ParallelStrategy:
    """The strategy with these column values. Raises ``ValueError`` unless there is one value for each column."""
    columns: dict[str, Any] = {name: np.array([value], dtype=np.int64) for name, value in zip(COLUMNS, values, strict=True)}
    columns |= {name: np.array([-1], dtype=np.int64) for name in INDICES}
    placed = None if layout is None else tuple(tuple(map(int, row)) for row in layout)
    return replace(StrategyBatch(**columns).row(0), layer_layout=placed)
