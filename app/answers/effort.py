"""The effort of a search, as answers give it: how many strategies, and how long."""

from __future__ import annotations

from pydantic import Field

from app.text.json_documents import Document


class Counts(Document):
    enumerated: int
    legal: int
    fits_memory: int
    estimated: int
    pruned_by_bound: int
    simulated: int | None
    sampled: int | None
    lattice: int | None = Field(
        default=None, description="strategies to enumerate in all, without memory-saving forms, of which there are more"
    )
    lattice_legal: int | None = Field(
        default=None, description="strategies of the lattice that break no rule; null where a search ended before it saw all"
    )
    forms: int | None = Field(default=None, description="memory-saving forms among `enumerated`")


class Timing(Document):
    estimate_s: float = Field(description="enumeration, legality and estimate")
    simulate_s: float | None
    refine_s: float | None
    enumerate_s: float
    legality_s: float
    price_s: float
    rank_s: float
    explain_s: float
    total_s: float
