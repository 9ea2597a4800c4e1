"""What a search proves of its ranking."""

from __future__ import annotations

from dataclasses import dataclass

from documents.said import Said


@dataclass(frozen=True)
class Proof:
    """What the answer is worth: proved best only over ``scope``, for this objective, model and set of constants.

    ``plan_id`` is the plan that this is about: the best by prediction, which is not always the first of those that tie with it.
    ``places``: so many of the listed structures, the fastest, are proved to be the best ones of the lattice.
    """

    exhaustive: bool
    proved_best: bool
    scope: Said
    objective: str
    optimality_gap_fraction: float | None
    stopped_by: str | None  # time_limit | interrupt | max_simulations
    plan_id: str | None = None
    places: int = 0
