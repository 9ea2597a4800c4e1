"""The proof of a ranking."""

from __future__ import annotations

from dataclasses import dataclass

from documents.said import Said


@dataclass(frozen=True)
class Proof:
    """The proof of a result, which holds for ``scope``, this objective, this model and these constants.

    ``plan_id`` is the plan that is best by prediction; of plans that tie it is not always the first. The fastest ``places`` of
    the listed structures are proved to be the best ones of the lattice. ``placements`` says which placements of layers each
    strategy had, and ``grain`` which values each dimension; ``None`` where nothing is proved.
    """

    exhaustive: bool
    proved_best: bool
    scope: Said
    objective: str
    optimality_gap_fraction: float | None
    stopped_by: str | None  # time_limit | memory_limit | interrupt | max_simulations
    plan_id: str | None = None
    places: int = 0
    placements: Said | None = None
    grain: Said | None = None
