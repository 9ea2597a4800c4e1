"""Details of a step: its simulation, the effects of software options, and the prices of its tensors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.text.json_documents import Document
from documents.said import Said


class SimulatedCommunication(Document):
    """Communication of one kind on the critical rank, in one step."""

    exposed_s: float
    masked_s: float
    steady_masked_fraction: float | None = Field(
        default=None,
        description="of ep_comm: the share hidden between warm-up and cool-down, where passes have partners, as publications "
        "state it; exposed_s and masked_s are of the whole step",
    )


class SimulatedRank(Document):
    """Idle time and memory peak of a pipeline rank."""

    rank: int
    bubble_s: float = Field(description="idle time in the step")
    peak_memory_bytes: float = Field(description="device, as in the estimate, whose worst rank counts")
    peak_at_s: float | None = Field(description="when its allocations peak first; null for a step of more than 100,000 tasks")


class Simulation(Document):
    """Results of the simulated step that are not in the estimate."""

    closed_form_step_time_s: float
    communication: dict[str, SimulatedCommunication] = Field(description="by the names of time_breakdown_s and masked_s")
    ranks: list[SimulatedRank] = Field(description="by pipeline rank")


class SoftwareOptionMoves(Document):
    """Price of the plan with one software option switched, or with a larger micro batch."""

    name: str
    kind: Literal["operators", "host", "strategy"] = Field(description="the field of `software` that it is in; or of the plan")
    is_on: bool
    meaning: Said
    constants_with: dict[str, float] = Field(description="the constants that it changes, with it")
    constants_without: dict[str, float]
    source: Said
    basis: Said = Field(description="vendor, measured, inferred or assumed")
    other_step_time_s: float
    other_host_fraction: float
    other_fits: bool
    gain_fraction: float = Field(description="throughput with it over that without, less 1")


class SoftwareMoves(Document):
    """Time that the step waits for the host, and the effect of each software option."""

    host_s: float
    host_fraction: float = Field(description="of the step, on the critical rank")
    options: list[SoftwareOptionMoves]


class TensorPrice(Document):
    """Price of a tensor that a layer keeps, for one layer and one micro batch."""

    kind: str
    tensor: str
    meaning: Said
    kept_bytes: float
    computed_by: Said | None = Field(description="null where it can only be kept or moved")
    recompute_s: float | None
    swap_s: float = Field(description="over the host link, each way, before compute hides it")


class StageTensors(Document):
    """Tensors of one micro batch that the layers of one kind on a virtual stage recompute or swap."""

    chunk: int
    stage: int
    kind: str
    layers: int
    recompute: list[str]
    swap: list[str]
    whole_bytes: float = Field(description="what they would keep")
    recomputed_bytes: float
    swapped_bytes: float
    added_s: float
