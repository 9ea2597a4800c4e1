"""What stands behind one plan and its played step, as the API shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.schemas import Change, EstimateDocument, LaunchDocument, StrategyDocument
from app.text.json_documents import Document
from documents.said import Said
from hardware_profiles.schema import Wiring


class LaunchFile(Document):
    """As `meshplan search --save-dir` writes it."""

    framework: str | None = Field(description="null for the job")
    name: str
    text: str


class PlanLaunch(Document):
    """How to start a plan on each framework that takes it."""

    plan_id: str
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]
    files: list[LaunchFile] = Field(description="of each framework that has arguments, and the job with this strategy")


class StageDocument(Document):
    """One pipeline rank. Times are of one micro batch over all its chunks."""

    stage: int
    num_layers: int
    num_moe_layers: int
    num_embeddings: int
    num_heads: int
    forward_s: float
    backward_s: float
    peak_memory_bytes: float
    memory_bytes: dict[str, float] = Field(description="at the rank's own peak; sums to peak_memory_bytes")


class NetworkTierDocument(Document):
    name: str
    wiring: Wiring
    domain_devices: int | None = Field(description="devices that reach each other through it; null: all")


class TierTrafficDocument(Document):
    """One device's traffic through one tier of the network in a step."""

    tier: str
    wiring: Wiring
    members: float = Field(description="ranks of the group that share a domain of the tier; a mean where they do so unevenly")
    bytes_moved: float
    bandwidth_bytes_per_s: float = Field(description="the most that the device can send to its peers in the group")


GroupName = Literal["tp", "cp", "ep", "dp", "expert_dp", "pp"]


class PlacedGroupDocument(Document):
    """One kind of process group: rank `r` is member `r // stride % size`, and the others are whole strides away."""

    group: GroupName = Field(description="dp: with context parallelism folded in, over which dense gradients are summed")
    size: int
    stride: int = Field(description="ranks between neighbours of the group")


class GroupTrafficDocument(Document):
    """One kind of process group over a step, on the pipeline rank that it keeps longest."""

    group: GroupName
    size: int
    stride: int = Field(description="ranks between neighbours of the group")
    stage: int
    time_s: float = Field(description="before anything hides it")
    tiers: list[TierTrafficDocument] = Field(description="those that the group crosses, from the inside out")


class Sensitivity(Document):
    """The step with one quantity better, a rate times 1 + `change_fraction` or a time divided by it, and as much worse."""

    quantity: str = Field(
        description="matmul_rate, memory_bandwidth, bandwidth.TIER, network_latency, host_time, host_link or expert_balance"
    )
    change_fraction: float
    better_step_time_s: float
    better_delta_fraction: float
    worse_step_time_s: float
    worse_delta_fraction: float


class PlanAnalysis(Document):
    """Priced now, at the plan's fidelity, with the study's own profile and constants.

    Another version may say another `step_time_s` than the plan.
    """

    schema_version: Literal[1]
    plan_id: str
    version: str
    step_time_s: float
    memory_limit_bytes: float
    fit_limit_bytes: float
    tiers: list[NetworkTierDocument] = Field(description="of the cluster's network, from the inside out")
    devices_per_node: int
    stages: list[StageDocument]
    placement: list[PlacedGroupDocument] = Field(
        description="every kind of group that the model has; ranks fill the cluster node by node"
    )
    traffic: list[GroupTrafficDocument]
    changes: list[Change] = Field(description="what changing one dimension would do, fastest first")
    sensitivity: list[Sensitivity] = Field(description="what matters most first")


class TurningPoint(Document):
    """A quantity at which the slower of two plans becomes as fast as the other."""

    quantity: str = Field(description="as in `sensitivity`")
    factor: float = Field(description="multiplies a rate and divides a time")


class Better(Document):
    """The fastest plan of a search beside the one that is explained."""

    plan_id: str
    strategy: StrategyDocument
    step_time_s: float
    difference_fraction: float = Field(description="its step time over that of the plan that is explained, minus 1")
    is_tie: bool = Field(description="the difference is below the paired error")
    changes: Said = Field(description="what it does otherwise")
    why: Said


class ExplainDocument(EstimateDocument):
    """What ``meshplan explain --json`` prints: an estimate, simulated, and what stands behind it. Changes are by closed form."""

    bound_by: Said
    best_change: Said
    would_fit: Said | None = Field(description="of a plan that does not fit")
    changes: list[Change] = Field(description="one dimension or one layer otherwise, fastest first")
    sensitivity: list[Sensitivity] = Field(description="what matters most first")
    other: Better | None = Field(description="the fastest other plan; null where nothing else is legal and fits")
    turning_points: list[TurningPoint] = Field(description="how wrong a number must be for the order of the two to turn")
    proved_best: bool = Field(description="of the search beside it")


class TaskColumns(Document):
    """One entry a bar, by rank, stream and start; no two of one rank and stream overlap."""

    rank: list[int] = Field(description="pipeline rank")
    stream: list[int] = Field(description="position in `streams`")
    kind: list[int] = Field(description="position in `kinds`")
    chunk: list[int] = Field(description="virtual stage on the rank; -1 where the bar belongs to none")
    micro_batch: list[int] = Field(description="of the step, from 0; -1 where the bar belongs to none")
    start_s: list[float]
    end_s: list[float]


class MemoryColumns(Document):
    """One entry a rank. `bytes[i][j]` are allocated from `time_s[i][j]` to the next time."""

    rank: list[int]
    time_s: list[list[float]]
    bytes: list[list[float]]


class PlanTimeline(Document):
    """A plan's step played task by task, from 0 to `step_time_s`, where the last bar ends.

    Played now, with the study's own profile and constants. Where a schedule lets steps overlap (zb2p, zbv), the time of each rank
    begins with its own step.
    """

    schema_version: Literal[1]
    step_time_s: float = Field(gt=0)
    num_ranks: int = Field(description="pipeline ranks; the ranks of other groups do as these do")
    streams: list[str]
    kinds: list[str]
    tasks: TaskColumns
    memory: MemoryColumns
    bubble_s: list[float] = Field(description="idle time of each rank")


class TraceEvents(Document):
    """The same step in Chrome's trace event format, which Perfetto and MindStudio Insight open; times in microseconds."""

    displayTimeUnit: Literal["ms"]  # noqa: N815 - the format's own spelling
    traceEvents: list[dict[str, Any]]  # noqa: N815 - the format's own spelling
