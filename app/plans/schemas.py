"""Schemas of the launch files, the analysis, the explanation and the timeline of a plan."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.answers.schemas import Change, EstimateDocument, LaunchDocument
from app.answers.strategies import StrategyDocument
from app.text.json_documents import Document
from documents.said import Said
from hardware_profiles.schema import Wiring


class LaunchFile(Document):
    """Launch file of a plan, as `meshplan search --save-dir` writes it."""

    framework: str | None = Field(description="null for the job")
    name: str
    text: str


class PlanLaunch(Document):
    """Launch arguments and launch files of a plan, by framework."""

    plan_id: str
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]
    files: list[LaunchFile] = Field(description="of each framework that has arguments, and the job with this strategy")


class StageDocument(Document):
    """Layers, times and memory of a pipeline rank. Times are of one micro batch over all its chunks."""

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
    """Traffic of a device through one tier of the network in a step."""

    tier: str
    wiring: Wiring
    members: float = Field(description="ranks of the group that share a domain of the tier; a mean where they do so unevenly")
    bytes_moved: float
    bandwidth_bytes_per_s: float = Field(description="the most that the device can send to its peers in the group")


GroupName = Literal["tp", "cp", "ep", "dp", "expert_dp", "pp"]


class PlacedGroupDocument(Document):
    """Process groups of one kind. Rank `r` is member `r // stride % size`; neighbours in a group are `stride` ranks apart."""

    group: Literal[GroupName, "shard", "copies"] = Field(
        description="dp: with context parallelism folded in, over which dense gradients are summed; its shard groups and "
        "the ranks of other copies with the same shard, where shards have copies (HSDP)"
    )
    size: int
    stride: int = Field(description="ranks between neighbours of the group")


class GroupTrafficDocument(Document):
    """Traffic of the process groups of one kind in a step, on the pipeline rank where it takes longest."""

    group: GroupName
    size: int
    stride: int = Field(description="ranks between neighbours of the group")
    stage: int
    time_s: float = Field(description="before anything hides it")
    tiers: list[TierTrafficDocument] = Field(description="those that the group crosses, from the inside out")


class Sensitivity(Document):
    """The step with one quantity better, a rate times 1 + `change_fraction` or a time divided by it, and as much worse."""

    quantity: str = Field(
        description="matmul_rate, memory_bandwidth, bandwidth.TIER, network_latency, host_time, host_link, host_memory or "
        "expert_balance"
    )
    change_fraction: float
    better_step_time_s: float
    better_delta_fraction: float
    worse_step_time_s: float
    worse_delta_fraction: float


class PlanAnalysis(Document):
    """Analysis of a plan.

    The request prices the plan at its fidelity, with the study's own profile and constants. If another version found the plan,
    `step_time_s` may differ from it.
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
    """Comparison of the fastest other plan of a search with the explained plan."""

    plan_id: str
    strategy: StrategyDocument
    step_time_s: float
    difference_fraction: float = Field(description="its step time over that of the plan that is explained, minus 1")
    is_tie: bool = Field(description="the difference is below the paired error")
    changes: Said = Field(description="what it does otherwise")
    why: Said
    reasons: Said | None = Field(default=None, description="the largest loss and the largest saving of the slower of the two")


class ExplainDocument(EstimateDocument):
    """Response of `POST /v1/explanations`, and output of `meshplan explain --json`.

    The estimate and all changes are simulated.
    """

    bound_by: Said
    shards: Said | None = Field(description="tiers that join shards and copies of them; null without copies (HSDP)")
    best_change: Said
    would_fit: Said | None = Field(description="of a plan that does not fit")
    changes: list[Change] = Field(description="one dimension or one layer otherwise, fastest first")
    sensitivity: list[Sensitivity] = Field(description="what matters most first")
    other: Better | None = Field(description="the fastest other plan; null where nothing else is legal and fits")
    turning_points: list[TurningPoint] = Field(description="how wrong a number must be for the order of the two to turn")
    proved_best: bool = Field(description="of the search beside it")
    searched_target: str | None = Field(
        description="of that search: the job's, or the usual one where the job names none; null where no plan may be offered"
    )


class TaskColumns(Document):
    """Columns with one entry for each bar, in order of rank, stream and start. Bars of a rank and stream do not overlap."""

    rank: list[int] = Field(description="pipeline rank")
    stream: list[int] = Field(description="position in `streams`")
    kind: list[int] = Field(description="position in `kinds`")
    chunk: list[int] = Field(description="virtual stage on the rank; -1 where the bar belongs to none")
    micro_batch: list[int] = Field(description="of the step, from 0; -1 where the bar belongs to none")
    start_s: list[float]
    end_s: list[float]


class MemoryColumns(Document):
    """Columns with one entry for each rank. `bytes[i][j]` are allocated from `time_s[i][j]` to the next time."""

    rank: list[int]
    time_s: list[list[float]]
    bytes: list[list[float]]


class PlanTimeline(Document):
    """Simulated tasks of a plan's step, from 0 to `step_time_s`, where the last bar ends.

    The request runs the simulation, with the study's own profile and constants. If the schedule lets steps overlap (zb2p, zbv),
    the time of each rank begins with its own step.
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
    """Timeline of a plan in Chrome's trace event format, for Perfetto and MindStudio Insight; times in microseconds."""

    displayTimeUnit: Literal["ms"]  # noqa: N815 - the format's own spelling
    traceEvents: list[dict[str, Any]]  # noqa: N815 - the format's own spelling
